# SPDX-License-Identifier: MIT OR Apache-2.0
# Processes that a test starts: wait for one with a bound, and end it. For `source`.

end() { # pid: asks, then insists; then reaps, with the exit status of the process
    [ -n "$1" ] || return 0
    kill "$1" 2>/dev/null || true
    for _ in $(seq 200); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$1" 2>/dev/null || true
    wait "$1" 2>/dev/null
}

until_true() { # seconds pid command..: until it succeeds, or the process is gone
    local last=$((SECONDS + $1)) pid=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        kill -0 "$pid" 2>/dev/null && [ $SECONDS -lt $last ] || return 1
        sleep 0.1
    done
}
