#!/usr/bin/env bash
# Brings the testbed up; safe to repeat: starts what does not run, and does the work of a first run once.
# Run install.sh before.
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
ready_to_run
[[ -x $VENV/bin/uwsgi ]] || die "The testbed is not installed; run tests/testbed/install.sh first."

end_lanes() { # of a script that fails; daemons are not among them
    local lanes
    lanes=$(jobs -p)
    # shellcheck disable=SC2086 # a list of pids
    [[ -z $lanes ]] || kill $lanes 2>/dev/null || true
}
trap end_lanes EXIT

# -- MariaDB and RabbitMQ ---------------------------------------------------------------------------

sql() { mariadb --no-defaults --socket "$MYSQL_SOCKET" -u root "$@"; }

make_mariadb() {
    [[ -d $TESTBED_DIR/mysql/mysql ]] || within mariadb-install-db --defaults-file="$ETC/mariadb/my.cnf" \
        --user=root --auth-root-authentication-method=normal --skip-test-db
}

make_databases() {
    local name
    for name in keystone placement glance cinder neutron zun; do
        say "CREATE DATABASE IF NOT EXISTS $name CHARACTER SET utf8mb3;"
    done | sql
    for name in "$IP" localhost; do
        sql -e "CREATE USER IF NOT EXISTS 'openstack'@'$name' IDENTIFIED BY '$PASSWORD'; GRANT ALL ON *.* TO 'openstack'@'$name'"
    done
}

up_mariadb() {
    render mariadb
    once mariadb make_mariadb
    claim mariadb "$MYSQL_PORT"
    start mariadb mariadbd --defaults-file="$ETC/mariadb/my.cnf"
    wait_for mariadb 120 sql --connect-timeout=5 -e 'SELECT 1'
    once databases make_databases
}

up_rabbitmq() {
    render rabbitmq
    mkdir -p "$TESTBED_DIR/rabbitmq"
    claim rabbitmq "$RABBIT_PORT"
    tcp_up 4369 || start epmd epmd -address "$IP" # Erlang's port mapper; one that is there already serves as well
    # Debian's /usr/sbin/rabbitmq-server changes user and waits for systemd; the script below it does neither.
    # The node is @localhost, so that the machine's name need not resolve.
    start rabbitmq env HOME="$TESTBED_DIR/rabbitmq" \
        RABBITMQ_NODENAME="testbed-$RABBIT_PORT@localhost" \
        RABBITMQ_DIST_PORT=$((RABBIT_PORT + 20000)) \
        RABBITMQ_CONFIG_FILE="$ETC/rabbitmq/rabbitmq.conf" \
        RABBITMQ_CONF_ENV_FILE=/dev/null \
        RABBITMQ_MNESIA_BASE="$TESTBED_DIR/rabbitmq" \
        RABBITMQ_LOG_BASE="$LOG" \
        RABBITMQ_ENABLED_PLUGINS_FILE="$ETC/rabbitmq/enabled_plugins" \
        RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}' \
        ERL_EPMD_ADDRESS="$IP" \
        /usr/lib/rabbitmq/bin/rabbitmq-server
}

# -- the work of the first run: schemas, accounts, catalogue; each may be repeated -------------------

make_keystone() {
    local manage=(within keystone-manage --config-file "$ETC/keystone/keystone.conf")
    mkdir -p "$TESTBED_DIR/keystone"
    "${manage[@]}" db_sync
    "${manage[@]}" fernet_setup --keystone-user root --keystone-group root
    "${manage[@]}" credential_setup --keystone-user root --keystone-group root
    "${manage[@]}" bootstrap --bootstrap-password "$PASSWORD" --bootstrap-region-id "$REGION" \
        --bootstrap-admin-url "$AUTH_URL" --bootstrap-internal-url "$AUTH_URL" --bootstrap-public-url "$AUTH_URL"
}

make_catalogue() {
    # shellcheck source=openrc-admin.sh
    source "$HERE/openrc-admin.sh"
    export GLANCE_URL=http://$IP:$GLANCE_PORT PLACEMENT_URL=http://$IP:$PLACEMENT_PORT
    export CINDER_URL=http://$IP:$CINDER_PORT NEUTRON_URL=http://$IP:$NEUTRON_PORT ZUN_URL=http://$IP:$ZUN_PORT
    within "$VENV/bin/python" "$HERE/bootstrap.py"
}

make_cinder() {
    mkdir -p "$TESTBED_DIR/cinder/volumes"
    within cinder-manage --config-file "$ETC/cinder/cinder.conf" db sync
}

make_glance() {
    mkdir -p "$TESTBED_DIR"/glance/{images,staging,tasks}
    within glance-manage --config-file "$ETC/glance/glance-api.conf" db_sync
}

make_placement() { within placement-manage --config-file "$ETC/placement/placement.conf" db sync; }

make_neutron() {
    mkdir -p "$TESTBED_DIR/neutron"
    within neutron-db-manage --config-file "$ETC/neutron/neutron.conf" --config-file "$ETC/neutron/ml2.ini" upgrade heads
}

other_schemas() {
    once cinder make_cinder
    once placement make_placement
    once glance make_glance
    once neutron make_neutron
}

# -- the services -----------------------------------------------------------------------------------

wsgi() { # NAME PORT MODULE:APP [OPTION...] ; a WSGI application, one process
    local name=$1 port=$2 module=$3
    shift 3
    claim "$name" "$port"
    start "$name" uwsgi --http-socket "$IP:$port" --module "$module" \
        --need-app --single-interpreter --enable-threads --threads 4 \
        --die-on-term --buffer-size 65535 --add-header 'Connection: close' \
        --disable-logging --procname-prefix "$name " "$@"
}

up_keystone() {
    once keystone make_keystone
    OS_KEYSTONE_CONFIG_DIR=$ETC/keystone wsgi keystone "$KEYSTONE_PORT" keystone.wsgi.api:application
    wait_for keystone 180 http_answers "$KEYSTONE_PORT" /v3
    once catalogue make_catalogue
}

start_services() {
    local cinder=(--config-file "$ETC/cinder/cinder.conf")
    local neutron=(--config-file "$ETC/neutron/neutron.conf")
    OS_PLACEMENT_CONFIG_DIR=$ETC/placement wsgi placement "$PLACEMENT_PORT" placement.wsgi.api:application
    # An image comes in chunks of up to 2 MiB; uWSGI takes 1 MiB unless told otherwise.
    OS_GLANCE_CONFIG_DIR=$ETC/glance wsgi glance "$GLANCE_PORT" glance.wsgi.api:application \
        --chunked-input-limit 8388608
    wait_for rabbitmq 180 tcp_up "$RABBIT_PORT"
    wsgi cinder-api "$CINDER_PORT" cinder.wsgi.api:application --pyargv "${cinder[*]}"
    start cinder-scheduler cinder-scheduler "${cinder[@]}"
    PYTHONPATH=$HERE PYTHONDONTWRITEBYTECODE=1 start cinder-volume cinder-volume "${cinder[@]}"
    up_openvswitch
    OS_NEUTRON_CONFIG_DIR=$ETC/neutron OS_NEUTRON_CONFIG_FILES='neutron.conf;ml2.ini' \
        wsgi neutron-api "$NEUTRON_PORT" neutron.wsgi.api:application
    start neutron-rpc-server neutron-rpc-server "${neutron[@]}" --config-file "$ETC/neutron/ml2.ini"
    start neutron-ovs-agent neutron-openvswitch-agent "${neutron[@]}" --config-file "$ETC/neutron/ovs-agent.ini"
}

up_openvswitch() {
    local database=$TESTBED_DIR/ovs/conf.db
    mkdir -p "$TESTBED_DIR/ovs"
    [[ -e $database ]] || ovsdb-tool create "$database" /usr/share/openvswitch/vswitch.ovsschema
    claim ovsdb-server "$OVSDB_PORT"
    start ovsdb-server ovsdb-server "$database" --remote="punix:$OVS_RUNDIR/db.sock" \
        --remote="ptcp:$OVSDB_PORT:$IP" --unixctl="$OVS_RUNDIR/ovsdb-server.ctl"
    wait_for ovsdb-server 30 ovs-vsctl --timeout=5 --no-wait init
    start ovs-vswitchd ovs-vswitchd "unix:$OVS_RUNDIR/db.sock" --unixctl="$OVS_RUNDIR/ovs-vswitchd.ctl"
    wait_for ovs-vswitchd 30 ovs-appctl -T 5 -t "$OVS_RUNDIR/ovs-vswitchd.ctl" version
}

up_kuryr() { # asks Neutron while it starts
    install -D -m 755 "$HERE/kuryr-bind/ovs" "$ETC/kuryr-bind/ovs"
    claim kuryr "$KURYR_PORT"
    start kuryr kuryr-server --config-file "$ETC/kuryr/kuryr.conf"
    wait_for kuryr 90 curl -sf --max-time 10 -X POST "http://$IP:$KURYR_PORT/Plugin.Activate"
    mkdir -p "$(dirname "$PLUGIN")" # the only place where dockerd looks
    say "http://$IP:$KURYR_PORT" >"$PLUGIN"
}

make_busybox() {
    local name
    mkdir -p "$TESTBED_DIR/busybox-oci"
    PYTHONPATH=$REPO PYTHONDONTWRITEBYTECODE=1 within "$VENV/bin/python" -c 'import pathlib, sys
from tests.support.busybox_image import build_layout
build_layout(pathlib.Path(sys.argv[1]))' "$TESTBED_DIR/busybox-oci"
    for name in busybox library/busybox; do
        within skopeo copy --format v2s2 --dest-tls-verify=false "oci:$TESTBED_DIR/busybox-oci:latest" \
            "docker://$IP:$REGISTRY_PORT/$name:latest"
    done
}

up_registry() {
    render registry
    mkdir -p "$TESTBED_DIR/registry"
    claim registry "$REGISTRY_PORT"
    start registry docker-registry serve "$ETC/registry/config.yml"
    wait_for registry 30 http_answers "$REGISTRY_PORT" /v2/
    once busybox make_busybox
}

agent_is_alive() ( # ports can be bound once Neutron has heard of the agent
    # shellcheck source=openrc-admin.sh
    source "$HERE/openrc-admin.sh"
    timeout 60 "$VENV/bin/python" -c 'import openstack, sys
agents = openstack.connect().network.agents(host=sys.argv[1])
sys.exit(not any(one.is_alive and one.agent_type == "Open vSwitch agent" for one in agents))' "$HOST"
)

# -- all of it, in two lanes for two cores ------------------------------------------------------------

for service in keystone placement glance cinder neutron kuryr; do render "$service"; done
up_rabbitmq
up_mariadb
up_keystone &
lane=$!
other_schemas
up_registry
wait "$lane" || exit 1 # it said why

start_services
wait_for placement 180 http_answers "$PLACEMENT_PORT"
wait_for glance 180 http_answers "$GLANCE_PORT"
wait_for cinder-api 180 http_answers "$CINDER_PORT"
wait_for neutron-api 180 http_answers "$NEUTRON_PORT"
up_kuryr
wait_for neutron-ovs-agent 180 agent_is_alive
step "The testbed is up: source $HERE/openrc-admin.sh"
