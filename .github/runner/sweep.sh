# Sourced by the two hooks: end what carries the mark of one of our engines.
# The runner's user runs nothing else, so whatever carries it is left over.
sweep() {
    local environment pid found turn
    # Again until there is none: a worker may be born while the others are ended.
    for turn in 1 2 3 4 5; do
        found=
        for environment in "${FORKPROOF_PROC:-/proc}"/[0-9]*/environ; do
            # Errors go first: a process may have ended since it was listed, and that is nobody's concern.
            if tr '\0' '\n' 2>/dev/null <"$environment" | grep -q '^FORKPROOF_BOOT='; then
                pid="${environment%/environ}"
                pid="${pid##*/}"
                if [ "$pid" != "$$" ] && kill -KILL "$pid" 2>/dev/null; then
                    found="$found $pid"
                fi
            fi
        done
        [ -n "$found" ] || return 0
        echo "turn $turn: ended what an engine left:$found"
        sleep 0.2
    done
}
