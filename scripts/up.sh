#!/usr/bin/env bash
# make up: from a fresh clone to a running product with a first container. Run again, it changes nothing.
source "$(dirname "$0")/lib.sh"

next() {
    local image openstack=openstack
    image=$(cat "$STATE/first-image" 2>/dev/null) || image=busybox
    image=${image%:latest}
    say "Zun is up: API $(endpoint), process $(running_pid zun), log $STATE/zun.log"
    say ""
    say "Next:"
    if [[ ! -x $CLIENTS/bin/openstack ]]; then
        say "  python3 -m venv .venv-clients"
        say "  .venv-clients/bin/pip install -c constraints-clients.txt python-openstackclient python-zunclient==5.5.0"
    fi
    say "  . $STATE/openrc; PATH=$CLIENTS/bin:\$PATH"
    say "  $openstack appcontainer run --name one --image-pull-policy ifnotpresent $image sleep 600"
    say "  $openstack appcontainer list"
    say "  $openstack appcontainer exec one uname -a"
    say "  $openstack appcontainer delete --force one"
    say "  .venv/bin/zun token create --project demo       another project; .venv/bin/zun --help shows the rest"
    say "  make down                                       stops the product; containers go on running"
    say ""
    capsules
}

capsules() { # how capsules run here, or what is missing for it
    local socket install="$VENV/bin/zun-cni-daemon install --config-file $STATE/zun.conf"
    socket=$(conf_value cri endpoint)
    socket=${socket:-unix:///run/containerd/containerd.sock}
    if [[ $(conf_value DEFAULT capsule_driver) == docker ]]; then
        say "Capsules run on Docker: $openstack capsule create --file docs/howto/capsule.yaml"
    elif [[ ! -S ${socket#unix://} ]]; then
        say "Capsules need containerd, which does not listen at ${socket#unix://}:"
        say "  apt-get install containerd containernetworking-plugins; start it, then  $install"
        say "or Docker: capsule_driver = docker in $STATE/zun.conf; docs/howto/capsules.md says more."
    elif [[ ! -x $(find /opt/cni/bin /usr/lib/cni /usr/libexec/cni -name zun-cni -print -quit 2>/dev/null) ]]; then
        say "Capsules run on this machine's containerd once it has Zun's network plug-in, as its first one:"
        say "  $install"
    else
        say "Capsules run on containerd: $openstack capsule create --file docs/howto/capsule.yaml"
    fi
}

endpoint() { sed -n 's/^export OS_ENDPOINT=//p' "$STATE/openrc"; }

healthy() { local url; url=$(endpoint 2>/dev/null) && "$PYTHON" -I scripts/probe.py http "${url%/v1}/healthcheck"; }

start() { # in the background; zun.pid is written by the product itself
    [[ ! -s $STATE/zun.log ]] || mv -f "$STATE/zun.log" "$STATE/zun.log.1"
    setsid "$VENV/bin/zun" up --state-dir "$STATE" >"$STATE/zun.log" 2>&1 </dev/null 9<&- &
    started=$!
    disown
}

fail() {
    say "--- the last lines of $STATE/zun.log:" >&2
    tail -n 15 "$STATE/zun.log" >&2 || true
    exit 1
}

if find_python && running_pid zun >/dev/null && healthy; then
    say "Already up; nothing changed."
    next
    exit 0
fi

exclusive
make_state
need_python
ensure_engine
[[ -x /bin/busybox ]] || install_packages busybox-static
ensure_venv base
if started=$(running_pid zun); then
    say "The product runs already (process $started) but is not healthy yet."
else
    say "Starting the product ..."
    start
fi
verb="run"
[[ ! -e $STATE/first-image ]] || verb="wait"
"$VENV/bin/python" scripts/first_container.py "$verb" "$STATE" "$(engine_url)" "$started" || fail
next
