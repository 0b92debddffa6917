#!/usr/bin/env bash
# make bench: the figures of docs, with the engine's own floor measured in the same run.
source "$(dirname "$0")/lib.sh"

exclusive
need_python
unset ZUN_STATE_DIR ZUN_PORT
STATE=$(mktemp -d /tmp/zun-bench.XXXXXX)
trap 'release_engine; rm -rf "$STATE"' EXIT
ensure_engine
[[ -x /bin/busybox ]] || install_packages busybox-static
ensure_venv test
flock -u 9
"$VENV/bin/python" -m tests.bench.main "$@"
