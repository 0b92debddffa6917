#!/usr/bin/env bash
# make tempest: zun-tempest-plugin, unmodified, against the product beside the testbed. Services that are started here are
# stopped again.
source "$(dirname "$0")/lib.sh"

tidy() {
    release_testbed
    release_engine
    remove_state_of_a_run
}

exclusive
need_python
state_of_a_run tests
note_testbed
trap tidy EXIT
ensure_engine
tests/testbed/install.sh
tests/testbed/up.sh
ensure_venv test
ensure_tempest
flock -u 9
ZUN_TEST_TEMPEST=$TEMPEST/bin/tempest "$VENV/bin/python" -m tests.tempest.run "$@"
