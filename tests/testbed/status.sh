#!/usr/bin/env bash
# Shows each service, whether it runs, and the memory of its processes (PSS: shared pages count once).
# Ends with 1 if one that was started has died.   status.sh --up: only the names of those that run
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"

if [[ ${1:-} == --up ]]; then
    for name in "${SERVICES[@]}"; do ! alive "$name" || say "$name"; done
    exit 0
fi

pss() { # PID ; sum over the session that `start` made and its children, MiB
    local process total=0 kib
    for process in $(ps -e -o sid=,pid=,ppid= | awk -v s="$1" '
        { sid[$2] = $1; parent[$2] = $3 }
        END { for (p in sid) if (sid[p] == s || sid[parent[p]] == s) print p }'); do
        kib=$(awk '/^Pss:/ { print $2 }' "/proc/$process/smaps_rollup" 2>/dev/null) || kib=0
        total=$((total + ${kib:-0}))
    done
    say $((total / 1024))
}

died=0 sum=0
printf '%-20s %-6s %8s %6s\n' SERVICE STATE PID MiB
for name in "${SERVICES[@]}"; do
    if alive "$name"; then
        read -r pid _ <"$RUN/$name.pid"
        mib=$(pss "$pid")
        sum=$((sum + mib))
        printf '%-20s %-6s %8s %6s\n' "$name" up "$pid" "$mib"
    elif [[ -e $RUN/$name.pid ]]; then
        printf '%-20s %-6s\n' "$name" DIED
        died=1
    else
        printf '%-20s %-6s\n' "$name" -
    fi
done
printf '%-36s %6s\n' total "$sum"
exit "$died"
