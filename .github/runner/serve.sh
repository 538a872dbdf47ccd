#!/usr/bin/env bash
# For a systemd unit of root: registers a runner for one job, lets it take that job, and ends.
# Usage: serve.sh OWNER/REPO LABEL [FOLDER [USER]], with GH_TOKEN of somebody who may register runners.
set -euo pipefail

repository=$1 label=$2 folder=${3:-/home/runner/actions-runner} user=${4:-runner}
home=$(getent passwd "$user" | cut -d: -f6)
token=$(gh api -X POST "repos/$repository/actions/runners/registration-token" --jq .token)

# With an environment of its own: the user who runs jobs never sees GH_TOKEN.
as_user() {
    runuser -u "$user" -- env -i HOME="$home" USER="$user" LOGNAME="$user" LANG=C.UTF-8 \
        PATH=/usr/local/bin:/usr/bin:/bin "$@"
}

cd "$folder"
rm -f .runner .credentials .credentials_rsaparams # of a runner that was killed before its job
as_user ./config.sh --unattended --ephemeral --replace --url "https://github.com/$repository" \
    --token "$token" --labels "$label"
as_user ./run.sh
