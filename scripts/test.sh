#!/usr/bin/env bash
# make test: everything the tests need, then pytest. Arguments go to pytest. An engine started here is stopped again.
source "$(dirname "$0")/lib.sh"

exclusive
need_python
STATE=$(mktemp -d /tmp/zun-tests.XXXXXX)
unset ZUN_STATE_DIR ZUN_PORT
trap 'release_engine; rm -rf "$STATE"' EXIT
ensure_engine
install_packages docker-registry skopeo busybox-static e2fsprogs rabbitmq-server \
    mariadb-server-core mariadb-client-core postgresql
ensure_venv test
ensure_clients
flock -u 9
ZUN_TEST_OPENSTACK=$CLIENTS/bin/openstack "$VENV/bin/python" -m pytest -n 2 --dist loadgroup "$@"
