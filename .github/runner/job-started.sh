#!/usr/bin/env bash
# ACTIONS_RUNNER_HOOK_JOB_STARTED: a job that would measure nonsense does not start.
set -euo pipefail
# shellcheck source=.github/runner/sweep.sh
. "$(dirname "${BASH_SOURCE[0]}")/sweep.sh"

sweep
if ! timeout 20 nvidia-smi --query-gpu=name --format=csv,noheader; then
    echo "::error::the GPU does not answer; reboot the machine (this says nothing about the change)"
    exit 1
fi
