#!/usr/bin/env bash
# make testbed-up: the OpenStack services that cloud tests need, and an engine for them. Run again, it changes nothing.
source "$(dirname "$0")/lib.sh"

exclusive
ensure_engine
flock -u 9
tests/testbed/install.sh
tests/testbed/up.sh
say "Accounts: . tests/testbed/openrc-admin.sh (or demo, zun); the rest: tests/testbed/README.md; make testbed-down stops it."
