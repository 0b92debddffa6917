#!/usr/bin/env bash
# make bench, make bench-cloud, make bench-fleet: the figures of docs, with the floor measured in the same run where
# there is one. First word: main, cloud or fleet.
source "$(dirname "$0")/lib.sh"

figures=$1
shift
exclusive
need_python
state_of_a_run bench
[[ $figures == fleet ]] || note_testbed
tidy() {
    if [[ $figures != fleet ]]; then
        release_testbed
        release_engine
    fi
    remove_state_of_a_run
}
trap tidy EXIT
if [[ $figures == fleet ]]; then
    install_packages mariadb-server-core mariadb-client-core rabbitmq-server
    ensure_venv bench
    flock -u 9
    "$VENV/bin/python" -m tests.bench.fleet "$@"
    exit
fi
ensure_engine
if [[ $figures == cloud ]]; then
    tests/testbed/install.sh
    tests/testbed/up.sh
fi
[[ -x /bin/busybox ]] || install_packages busybox-static
ensure_venv test
flock -u 9
"$VENV/bin/python" -m "tests.bench.$figures" "$@"
