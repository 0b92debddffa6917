#!/bin/sh
# OCI runtime front end that lets a plain `runsc` binary (without gVisor's own
# containerd shim) run pods under containerd's io.containerd.runc.v2 shim.
#
# What the runc shim expects and runsc does differently for the second and
# later containers of a pod:
#  * standard streams: given to `create`; runsc takes those of `start`;
#  * a process id whose exit is the container's exit: runsc writes the pid of
#    the sandbox, which lives on;
#  * kill of something that has ended: the shim recognises the words
#    "container not running" only.
# So `create` leaves a stand-in process behind.  It keeps the streams until
# `start` has passed them on, then waits for the container and exits with its
# exit code.
RUNSC=/usr/bin/runsc
FLAGS='--platform=ptrace --network=host'
RUN=@RUN@                       # private folder of this script

root= bundle= pidfile= command= previous= last_but_one=
for arg; do
    last_but_one=$previous
    case $previous in
        --root) root=$arg ;;
        --bundle) bundle=$arg ;;
        --pid-file) pidfile=$arg ;;
    esac
    case $arg in
        create|start|kill|delete) [ -n "$command" ] || command=$arg ;;
    esac
    previous=$arg
done
id=$previous                    # the last word ...
[ "$command" != kill ] || id=$last_but_one      # ... except in `kill ID SIGNAL`

runsc() { "$RUNSC" $FLAGS "$@"; }

stand_in() {                    # $1: container id
    read -r go < "$RUN/$1.start" || exit 1
    exec < /dev/null > /dev/null 2>&1
    status=$(runsc --root "$root" wait "$1" |
             sed -n 's/.*"exitStatus":\([0-9]*\).*/\1/p')
    exit "${status:-255}"
}

case $command in
create)
    exec 3<&0
    runsc "$@" || exit
    grep -q '"io.kubernetes.cri.container-type":"container"' "$bundle/config.json" || exit 0
    mkdir -p "$RUN"
    mkfifo "$RUN/$id.start" || exit
    stand_in "$id" <&3 3<&- &
    pid=$!
    # Accounting looks at the cgroup of the recorded process.
    sandbox=$(cat "$pidfile")
    while IFS=: read -r _ controllers path; do
        dir=/sys/fs/cgroup/${controllers#name=}$path
        [ -n "$controllers" ] && [ -d "$dir" ] && echo $pid > "$dir/cgroup.procs"
    done < "/proc/$sandbox/cgroup"
    echo $pid > "$RUN/$id.pid"
    printf %s $pid > "$pidfile" ;;
start)
    [ -f "$RUN/$id.pid" ] || { runsc "$@"; exit; }
    pid=$(cat "$RUN/$id.pid")
    if runsc "$@" < "/proc/$pid/fd/0" > "/proc/$pid/fd/1" 2> "/proc/$pid/fd/2"; then
        echo go > "$RUN/$id.start"
    else
        kill "$pid"
        exit 1
    fi ;;
kill)
    out=$(runsc "$@" 2>&1) && exit 0
    case $out in
        *'not running'*|*'in state stopped'*|*'in state created'*)
            [ ! -f "$RUN/$id.pid" ] || kill "$(cat "$RUN/$id.pid")" 2>/dev/null
            echo 'container not running' >&2 ;;
        *) echo "$out" >&2 ;;
    esac
    exit 1 ;;
delete)
    if [ -f "$RUN/$id.pid" ]; then
        kill "$(cat "$RUN/$id.pid")" 2>/dev/null
        rm -f "$RUN/$id.pid" "$RUN/$id.start"
    fi
    runsc "$@" ;;
*)
    runsc "$@" ;;
esac
