#!/usr/bin/env bash
# make bench, make bench-cloud: the figures of docs, with the floor measured in the same run. First word: main or cloud.
source "$(dirname "$0")/lib.sh"

figures=$1
shift
exclusive
need_python
unset ZUN_STATE_DIR ZUN_PORT
STATE=$(mktemp -d /tmp/zun-bench.XXXXXX)
note_testbed
trap 'release_testbed; release_engine; rm -rf "$STATE"' EXIT
ensure_engine
if [[ $figures == cloud ]]; then
    tests/testbed/install.sh
    tests/testbed/up.sh
fi
[[ -x /bin/busybox ]] || install_packages busybox-static
ensure_venv test
flock -u 9
"$VENV/bin/python" -m "tests.bench.$figures" "$@"
