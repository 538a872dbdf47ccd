#!/usr/bin/env bash
# ACTIONS_RUNNER_HOOK_JOB_COMPLETED: no engine and no GPU memory outlives a job, a cancelled one included.
set -euo pipefail
# shellcheck source=.github/runner/sweep.sh
. "$(dirname "${BASH_SOURCE[0]}")/sweep.sh"

sweep
timeout 20 nvidia-smi --query-gpu=memory.used --format=csv,noheader || true
