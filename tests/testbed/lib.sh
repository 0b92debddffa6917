# shellcheck shell=bash
# shellcheck disable=SC2034 # settings are used by the scripts that source this
# Shared settings and helpers of the testbed; sourced, never run. All it writes lies under $TESTBED_DIR, apart from
# Docker's plugin file for Kuryr.

# shellcheck source=../../scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

HERE=$REPO/tests/testbed
export TESTBED_DIR=${TESTBED_DIR:-/var/lib/zun-testbed}
VENV=$TESTBED_DIR/venv # not the checkout's
ETC=$TESTBED_DIR/etc
RUN=$TESTBED_DIR/run
LOG=$TESTBED_DIR/log
STAMP=$TESTBED_DIR/stamp

IP=127.0.0.1
PASSWORD=${TESTBED_PASSWORD:-testbed} # one password for every account
REGION=RegionOne
HOST=${TESTBED_HOST:-$(hostname)} # the name that services register
MYSQL_PORT=${MYSQL_PORT:-3306}
RABBIT_PORT=${RABBIT_PORT:-5672}
KEYSTONE_PORT=${KEYSTONE_PORT:-35357} # 5000 belongs to the registry
GLANCE_PORT=${GLANCE_PORT:-9292}
PLACEMENT_PORT=${PLACEMENT_PORT:-8778}
CINDER_PORT=${CINDER_PORT:-8776}
NEUTRON_PORT=${NEUTRON_PORT:-9696}
OVSDB_PORT=${OVSDB_PORT:-6640}
KURYR_PORT=${KURYR_PORT:-23750}
ZUN_PORT=${ZUN_PORT:-9517}
REGISTRY_PORT=${REGISTRY_PORT:-5000}
AUTH_URL=http://$IP:$KEYSTONE_PORT/v3
MYSQL_SOCKET=$RUN/mysqld.sock
PLUGIN=${TESTBED_PLUGIN:-/usr/lib/docker/plugins/kuryr.spec}

export PATH=$VENV/bin:$PATH:/usr/sbin:/sbin
export OVS_RUNDIR=$RUN/ovs                # so that ovs-vsctl finds our server
export OS_CLIENT_CONFIG_FILE=/nonexistent # never pick up a stray clouds.yaml
unset PYTHONPATH PYTHONHOME

# Every process that is kept running, in the order of starting. The first ones serve the others.
BASE=(mariadb epmd rabbitmq ovsdb-server ovs-vswitchd)
OTHERS=(keystone placement glance cinder-api cinder-scheduler cinder-volume
    neutron-api neutron-rpc-server neutron-ovs-agent kuryr registry)
SERVICES=("${BASE[@]}" "${OTHERS[@]}")

step() { printf '%s %s\n' "$(date +%T)" "$*"; }

fail() { # SENTENCE LOG ; with the end of the log
    printf -- '--- the last lines of %s:\n' "$2" >&2
    tail -n 15 "$2" >&2 2>/dev/null || true
    die "The testbed: $1"
}

ready_to_run() { # root, a short enough folder, and one script at a time
    ((EUID == 0)) || die "The testbed runs switches, namespaces and loop devices: it needs root."
    ((${#RUN} < 60)) || die "TESTBED_DIR=$TESTBED_DIR is too long: sockets below it would pass 108 characters."
    mkdir -p "$ETC" "$RUN/ovs" "$RUN/lock" "$LOG" "$STAMP"
    exec 8>"$TESTBED_DIR/lock"
    flock -n 8 || { step "Another script works on $TESTBED_DIR; waiting for it ..."; flock -w 1200 8; } \
        || die "Another script has been working on $TESTBED_DIR for 20 minutes."
}

# -- processes --------------------------------------------------------------------------------------
# $RUN/NAME.pid holds pid and start time: a pid may belong to another process by now.

alive() { # NAME ; is the process that `start NAME` recorded still the same one?
    local pid started
    read -r pid started 2>/dev/null <"$RUN/$1.pid" || return 1
    [[ -n $started && $(start_time "$pid") == "$started" ]]
}

start() { # NAME COMMAND... ; detached, in a process group of its own, its output appended to $LOG/NAME.log
    local name=$1 pid
    shift
    alive "$name" && return 0
    step "starting $name"
    setsid "$@" >>"$LOG/$name.log" 2>&1 </dev/null 8>&- 9<&- &
    pid=$!
    disown "$pid" # what is left in `jobs` are lanes of the script
    say "$pid $(start_time "$pid")" >"$RUN/$name.pid"
}

stop() { # NAME ; TERM, after 10 s KILL to the group that `start` made; a second call is success
    local name=$1 pid _ deadline=$((SECONDS + 10))
    if alive "$name"; then
        read -r pid _ <"$RUN/$name.pid"
        step "stopping $name"
        kill -TERM "$pid" 2>/dev/null || true
        while alive "$name" && ((SECONDS < deadline)); do sleep 0.1; done
        kill -KILL -- "-$pid" 2>/dev/null || true
    fi
    rm -f "$RUN/$name.pid"
}

tcp_up() { (exec 3<>"/dev/tcp/$IP/$1") 2>/dev/null; } # PORT ; does anything listen there?

claim() { # NAME PORT ; ends the script if a program that is not ours has the port
    alive "$1" || ! tcp_up "$2" || die "The testbed: port $2 of $1 is taken by another program."
}

wait_for() { # NAME SECONDS COMMAND... ; until COMMAND (which bounds itself) succeeds, while the process NAME lives
    local name=$1 seconds=$2 deadline=$((SECONDS + $2))
    shift 2
    until "$@" >/dev/null 2>&1; do
        alive "$name" || fail "$name died." "$LOG/$name.log"
        ((SECONDS < deadline)) || fail "$name was not ready after $seconds s." "$LOG/$name.log"
        sleep 0.2
    done
}

http_answers() { # PORT [PATH] ; any status
    curl -s -o /dev/null --max-time 5 "http://$IP:$1${2:-/}"
}

# -- first run ----------------------------------------------------------------------------------------

version() { # what the work of the first run depends on
    cat "$HERE"/{constraints.txt,requirements.in,bootstrap.py} "$REPO/tests/support/busybox_image.py" | sha256sum
}

once() { # NAME COMMAND... ; unless it succeeded in this folder with these versions. COMMAND may run again.
    local name=$1 log=$LOG/setup-$1.log
    shift
    [[ $(cat "$STAMP/$name" 2>/dev/null) == "$(version)" ]] && return 0
    step "first run: $name"
    ("$@") >"$log" 2>&1 || fail "first run of $name failed." "$log"
    version >"$STAMP/$name"
}

within() { # COMMAND... ; no step of a first run takes longer than this
    timeout -k 10 300 "$@" || { say "ended with $? (124: not within 300 s): $*"; return 1; }
}

render() { # SERVICE ; fills in the @NAME@ marks of etc/SERVICE/* into $ETC/SERVICE
    local source name expressions=()
    for name in TESTBED_DIR VENV ETC RUN LOG IP PASSWORD REGION HOST MYSQL_PORT RABBIT_PORT KEYSTONE_PORT \
        GLANCE_PORT PLACEMENT_PORT CINDER_PORT NEUTRON_PORT OVSDB_PORT KURYR_PORT ZUN_PORT REGISTRY_PORT AUTH_URL; do
        expressions+=(-e "s|@$name@|${!name}|g")
    done
    mkdir -p "$ETC/$1"
    for source in "$HERE/etc/$1"/*; do
        sed "${expressions[@]}" "$source" >"$ETC/$1/$(basename "$source")"
    done
}
