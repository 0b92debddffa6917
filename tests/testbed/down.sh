#!/usr/bin/env bash
# Stops what up.sh started, last started first; data stays.
#   down.sh            everything
#   down.sh NAME...    only these (names as in status.sh)
#   down.sh --wipe     everything, and deletes all data but the Python environment
# shellcheck source=lib.sh
source "$(dirname "$0")/lib.sh"
ready_to_run

wipe=
if [[ ${1:-} == --wipe ]]; then
    wipe=yes
    shift
fi
chosen=("$@")
((${#chosen[@]})) || chosen=("${SERVICES[@]}")

# Each network of a plugin that is stopped keeps dockerd from its next start for 15 s.
forget_kuryr_networks() {
    local network
    [[ " ${chosen[*]} " == *" kuryr "* ]] && alive kuryr && command -v docker >/dev/null || return 0
    for network in $(timeout 20 docker network ls --quiet --filter driver=kuryr); do
        timeout 30 docker network rm "$network" >/dev/null || step "a network of Kuryr's stays in Docker: $network"
    done
}

stop_those_of() { # NAME... ; the chosen ones among them, side by side
    local name pids=()
    for name in "$@"; do
        [[ " ${chosen[*]} " == *" $name "* ]] || continue
        stop "$name" &
        pids+=($!)
    done
    ((${#pids[@]} == 0)) || wait "${pids[@]}"
}
forget_kuryr_networks
stop_those_of "${OTHERS[@]}" # what uses the database, the bus and the switch goes before them
stop_those_of "${BASE[@]}"

alive kuryr || [[ ! -e $PLUGIN || $(cat "$PLUGIN") != "http://$IP:$KURYR_PORT" ]] || rm -f "$PLUGIN"
if ! alive cinder-volume; then # loop devices of volumes that were still attached
    losetup --list --noheadings --output NAME,BACK-FILE | while read -r device file; do
        [[ $file != "$TESTBED_DIR"/* ]] || losetup --detach "$device"
    done
fi
if [[ -n $wipe ]]; then
    cd "$TESTBED_DIR" || exit 1
    rm -rf mysql rabbitmq keystone glance cinder neutron ovs registry busybox-oci etc run log
    find stamp -type f ! -name venv -delete
    step "all data deleted"
fi
