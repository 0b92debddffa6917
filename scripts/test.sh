#!/usr/bin/env bash
# What the tests need, then pytest. First word: machine, those that need no cloud; cloud, those beside a real OpenStack,
# which is started for them; all, both. Further words go to pytest. What is started here (the engine, services of the
# testbed) is stopped again, also after a failure; what ran before goes on running. ZUN_TEST_WORKERS: how many tests run
# at once.
source "$(dirname "$0")/lib.sh"

which=$1
shift

tidy() {
    [[ -z ${lane:-} ]] || kill -- "-$lane" 2>/dev/null || true
    [[ $which == machine ]] || release_testbed
    release_engine
    remove_state_of_a_run
}

start_cloud() { # beside the rest of the set-up
    say "Starting the cloud's services beside the rest of the set-up ..."
    setsid bash -c 'tests/testbed/install.sh && tests/testbed/up.sh' >"$STATE/testbed.log" 2>&1 </dev/null 9<&- &
    lane=$!
}

exclusive
need_python
state_of_a_run tests
[[ $which == machine ]] || note_testbed
trap tidy EXIT
packages=(docker-registry skopeo busybox-static e2fsprogs iproute2 iptables ethtool libfaketime rabbitmq-server
    mariadb-server-core mariadb-client-core postgresql containerd runc runsc containernetworking-plugins
    chromium fonts-dejavu-core)
[[ $which == machine ]] || mapfile -t -O "${#packages[@]}" packages <tests/testbed/packages
install_packages "${packages[@]}"
ensure_engine
[[ $which == machine ]] || start_cloud
ensure_venv test
ensure_clients
if [[ $which != machine ]]; then
    ensure_tempest
    wait "$lane" || { tail -n 25 "$STATE/testbed.log" >&2; die "The cloud's services could not be started."; }
    lane=
fi
# Tests wait a third of their time, for engines and services: one worker more than two processors carries.
workers=${ZUN_TEST_WORKERS:-2}
declare -A chosen=([all]= [machine]="not cloud" [cloud]=cloud)
flock -u 9
ZUN_TEST_OPENSTACK=$CLIENTS/bin/openstack ZUN_TEST_TEMPEST=$TEMPEST/bin/tempest \
    "$VENV/bin/python" -m pytest -n "$workers" --dist loadgroup -m "${chosen[$which]}" "$@"
