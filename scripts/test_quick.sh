#!/usr/bin/env bash
# make test-quick: the tests that need no engine and no other program.
source "$(dirname "$0")/lib.sh"

exclusive
ensure_venv test
flock -u 9
exec "$VENV/bin/python" -m pytest -n 2 --dist loadgroup -m "not engine and not cloud and not slow" tests/unit tests/contract tests/api "$@"
