#!/usr/bin/env bash
# make tempest: zun-tempest-plugin, unmodified, against the product beside the testbed. Services that are started here are
# stopped again.
source "$(dirname "$0")/lib.sh"

tidy() {
    release_testbed
    release_engine
    rm -rf "$STATE"
}

exclusive
need_python
STATE=$(mktemp -d /tmp/zun-tests.XXXXXX)
unset ZUN_STATE_DIR ZUN_PORT
note_testbed
trap tidy EXIT
ensure_engine
tests/testbed/install.sh
tests/testbed/up.sh
ensure_venv test
ensure_tempest
flock -u 9
ZUN_TEST_TEMPEST=$TEMPEST/bin/tempest "$VENV/bin/python" -m tests.tempest.run "$@"
