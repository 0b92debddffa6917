#!/usr/bin/env bash
# make fuzz: many requests that nobody sends, at a populated product on the simulated engine. Words go to tests.fuzz.main.
source "$(dirname "$0")/lib.sh"

exclusive
ensure_venv test
unset ZUN_STATE_DIR ZUN_PORT
flock -u 9
exec "$VENV/bin/python" -m tests.fuzz.main "$@"
