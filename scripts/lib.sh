# shellcheck shell=bash
# What the scripts share. Sourced; sets REPO, STATE, VENV and a handful of functions.

set -euo pipefail

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$REPO"
STATE=${ZUN_STATE_DIR:-$REPO/var}
[[ $STATE == /* ]] || STATE=$REPO/$STATE
VENV=$REPO/.venv
CLIENTS=$REPO/.venv-clients
TEMPEST=$REPO/.venv-tempest
export ZUN_STATE_DIR=$STATE

say() { printf '%s\n' "$*"; }
die() { printf '%s\n' "$*" >&2; exit 1; }

make_state() {
    [[ -d $STATE ]] || (umask 077 && mkdir -p "$STATE") || die "The state directory $STATE cannot be made; set ZUN_STATE_DIR to another place."
    [[ -w $STATE ]] || die "The state directory $STATE is not writable for $(id -un); set ZUN_STATE_DIR to another place."
}

# -- processes ------------------------------------------------------------------------------------
# A pid file is believed only with the start time beside it: a pid may belong to another process by now.

start_time() { # PID -> clock ticks since boot; fails when it is gone or a zombie
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    stat=${stat##*) }
    [[ $stat != Z* ]] && awk '{ print $20 }' <<<"$stat"
}

running_pid() { # NAME -> the pid of $STATE/NAME.pid if that very process still runs
    local pid started
    pid=$(cat "$STATE/$1.pid" 2>/dev/null) && started=$(cat "$STATE/$1.started" 2>/dev/null) || return 1
    [[ $pid =~ ^[0-9]+$ && $(start_time "$pid") == "$started" ]] && say "$pid"
}

stop_pid() { # NAME SECONDS -> TERM, wait, KILL
    local pid deadline=$((SECONDS + $2))
    pid=$(running_pid "$1") || return 0
    kill -TERM "$pid" 2>/dev/null || true
    while running_pid "$1" >/dev/null; do
        if ((SECONDS >= deadline)); then
            say "$1 (process $pid) did not end within $2 s; killing it."
            kill -KILL "$pid" 2>/dev/null || true
            deadline=$((SECONDS + 5))
        fi
        sleep 0.1
    done
    rm -f "$STATE/$1.pid" "$STATE/$1.started"
}

# -- packages -------------------------------------------------------------------------------------

has_systemd() { [[ -d /run/systemd/system ]]; }

missing_packages() { # PACKAGE... -> those not installed
    local package
    for package in "$@"; do
        [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || say "$package"
    done
}

install_packages() { # PACKAGE... ; without root or Debian says what to install
    local missing
    if ! command -v dpkg-query >/dev/null; then
        missing=$(printf '%s\n' "$@")
    else
        missing=$(missing_packages "$@")
    fi
    [[ -n $missing ]] || return 0
    missing=${missing//$'\n'/ }
    if ! command -v apt-get >/dev/null; then
        die "This is not Debian. Install what corresponds to these Debian packages, then run this again: $missing"
    fi
    ((EUID == 0)) || die "Packages are missing and this is not root. Run: sudo apt-get install $missing   then run this again."
    say "Installing $missing ..."
    apt_install "$missing"
}

apt_install() ( # "PACKAGES" ; package scripts must not start daemons themselves
    log=$(mktemp) policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod 755 "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # a list of words
    if ! { apt-get -q update && apt-get -q -y --no-install-recommends install $1; } >"$log" 2>&1 </dev/null; then
        tail -n 20 "$log" >&2
        die "apt-get could not install: $1 (whole log: $log)"
    fi
    rm -f "$log"
)

# -- Python ---------------------------------------------------------------------------------------

find_python() { # a Python >= 3.11 that can make virtual environments, in PYTHON
    local candidate
    for candidate in python3 /usr/bin/python3; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            PYTHON=$candidate
            return 0
        fi
    done
    return 1
}

need_python() {
    find_python && return 0
    install_packages python3 python3-venv
    find_python || die "Python 3.11 or newer is needed, with its venv module; Debian 12 has it: apt-get install python3-venv"
}

make_venv() { # FOLDER STAMP CONSTRAINTS PIP-ARGUMENT... ; skipped while what it is made from is unchanged
    local folder=$1 stamp=$1/.made-$2 constraints=$3 wanted log
    shift 3
    wanted=$(cat pyproject.toml "$constraints" - <<<"$REPO" | sha256sum)
    [[ $(cat "$stamp" 2>/dev/null) == "$wanted" ]] && return 0
    need_python
    say "Installing Python packages into ${folder#"$REPO"/} (a minute or two) ..."
    log=$(mktemp)
    if ! { { [[ -x $folder/bin/pip ]] || "$PYTHON" -m venv --clear "$folder"; } \
        && "$folder/bin/python" -m pip install --disable-pip-version-check -c "$constraints" "$@"; } >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        die "The Python packages could not be installed (whole log: $log)"
    fi
    rm -f "$log"
    say "$wanted" >"$stamp"
}

# An editable install: what is checked out is what runs, also after a `git pull`. check includes test includes base.
ensure_venv() { # base | test | bench | check
    local -A extras=([base]='[cri]' [test]='[test]' [bench]='[bench]' [check]='[test,check]')
    make_venv "$VENV" "$1" constraints.txt --config-settings editable_mode=compat -e ".${extras[$1]}"
    [[ $1 == base ]] || cp "$VENV/.made-$1" "$VENV/.made-base"
    [[ $1 != bench && $1 != check ]] || cp "$VENV/.made-$1" "$VENV/.made-test"
}
ensure_clients() { make_venv "$CLIENTS" clients constraints-clients.txt python-openstackclient python-zunclient==5.5.0 osc-placement; }
ensure_tempest() { make_venv "$TEMPEST" tempest constraints-tempest.txt tempest==47.0.0 zun-tempest-plugin==4.14.0; }

# -- the container engine -------------------------------------------------------------------------

conf_value() { # SECTION OPTION -> what zun.conf says, nothing where it does not
    sed -n "/^\[$1\]/,/^\[/s/^$2 *= *//p" "$STATE/zun.conf" 2>/dev/null | tail -n 1 || true
}

engine_url() { # what zun.conf says, or Docker's own default
    local url
    url=$(conf_value docker api_url)
    say "${url:-unix:///var/run/docker.sock}"
}

engine_answers() { "$PYTHON" -I "$REPO/scripts/probe.py" engine "$(engine_url)"; }

ensure_engine() { # installs and starts Docker where none answers
    local apparmor=
    need_python
    engine_answers && return 0
    [[ $(engine_url) == unix:///var/run/docker.sock || $(engine_url) == unix:///run/docker.sock ]] \
        || die "No Docker engine answers at $(engine_url), which zun.conf names under [docker]/api_url. Start it there."
    ((EUID == 0)) || die "No Docker engine answers at $(engine_url) for $(id -un). Run: sudo apt-get install docker.io iptables; sudo usermod -aG docker $(id -un)   then log in again."
    [[ $(cat /sys/module/apparmor/parameters/enabled 2>/dev/null) == Y ]] && apparmor=apparmor
    # shellcheck disable=SC2086 # one word or none
    command -v dockerd >/dev/null || install_packages docker.io iptables ca-certificates $apparmor
    say "Starting the Docker engine ..."
    ENGINE_STARTED=yes
    if has_systemd; then
        systemctl start docker || die "systemd could not start Docker; see: journalctl -u docker"
    else
        start_dockerd
    fi
    wait_for_engine
}

start_dockerd() { # detached; log and pid in $STATE; images and networks in $ENGINE_DATA, else where Docker keeps them
    local stale
    make_state
    stale=$(cat /var/run/docker.pid 2>/dev/null) || stale=
    if [[ -n $stale && $(cat "/proc/$stale/comm" 2>/dev/null) != dockerd ]]; then
        rm -f /var/run/docker.pid # left by an engine that was killed; the pid may be another process by now
    fi
    # Signals that are ignored here, as under nohup, would be ignored by all that runs in containers.
    setsid env --default-signal=HUP,INT,QUIT dockerd ${ENGINE_DATA:+--data-root "$ENGINE_DATA"} \
        >>"$STATE/dockerd.log" 2>&1 </dev/null 9<&- &
    say "$!" >"$STATE/dockerd.pid"
    start_time "$!" >"$STATE/dockerd.started"
    disown
}

engine_log() { if has_systemd; then say "journalctl -u docker"; else say "$STATE/dockerd.log"; fi; }

release_engine() { # the way down of ensure_engine: stops what it started, nothing else
    [[ -n ${ENGINE_STARTED:-} ]] || return 0
    if has_systemd; then systemctl stop docker.socket docker; else stop_pid dockerd 20; fi
}

# A run of tests or benches has a state directory of its own, and starts no engine on what was left in /var/lib/docker:
# networks of a plugin that is stopped keep dockerd from its start for a minute, containers come up again.
state_of_a_run() { # WORD -> STATE, ENGINE_DATA
    STATE=$(mktemp -d "/tmp/zun-$1.XXXXXX")
    ENGINE_DATA=$STATE/docker
    unset ZUN_STATE_DIR ZUN_PORT
}

remove_state_of_a_run() { # after release_engine; what an engine that was killed left mounted goes first
    local place
    for place in $(awk -v below="$STATE/" 'index($2, below) == 1 { print $2 }' /proc/self/mounts | sort -r); do
        umount "$place" || umount --lazy "$place" || true
    done
    rm -rf --one-file-system "$STATE" || say "Could not be removed whole: $STATE"
}

wait_for_engine() {
    local deadline=$((SECONDS + 60))
    until engine_answers; do
        if ((SECONDS >= deadline)) || { ! has_systemd && ! running_pid dockerd >/dev/null; }; then
            [[ -f $STATE/dockerd.log ]] && tail -n 15 "$STATE/dockerd.log" >&2
            die "The Docker engine did not start. Its log: $(engine_log)"
        fi
        sleep 0.2
    done
}

# -- the cloud's services of the tests -------------------------------------------------------------

note_testbed() { mapfile -t TESTBED_BEFORE < <(tests/testbed/status.sh --up); } # what runs already

release_testbed() { # stops what was started since note_testbed, nothing else
    local service started=()
    while read -r service; do
        [[ " ${TESTBED_BEFORE[*]} " == *" $service "* ]] || started+=("$service")
    done < <(tests/testbed/status.sh --up)
    ((${#started[@]} == 0)) || tests/testbed/down.sh "${started[@]}" >/dev/null || true
}

# One set-up at a time in this checkout.
exclusive() {
    exec 9<"$REPO/pyproject.toml"
    flock -n 9 || { say "Another run is setting up this checkout; waiting for it ..."; flock 9; }
}
