#!/usr/bin/env bash
# make testbed-down: stops the OpenStack services of the tests; their data and the engine stay.
source "$(dirname "$0")/lib.sh"

exec tests/testbed/down.sh "$@"
