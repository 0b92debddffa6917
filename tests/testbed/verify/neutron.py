"""Two namespaces on one Neutron network: ports turn ACTIVE, ping and TCP work,
and a security group lets in only what it allows.

Run as root with the zun or admin openrc sourced:  python neutron.py
"""

import os
import socket
import subprocess
import time

import openstack

cloud = openstack.connect()
net = cloud.network
host = socket.gethostname()
os.environ["PATH"] += ":/usr/sbin:/sbin"
os.environ.setdefault("OVS_RUNDIR", os.path.join(os.environ.get("TESTBED_DIR", "/var/lib/zun-testbed"), "run", "ovs"))


def sh(command, check=True):
    done = subprocess.run(command, shell=True, text=True, capture_output=True)
    if check and done.returncode:
        raise SystemExit(f"{command}\n{done.stdout}{done.stderr}")
    return done


def plug(port, number):
    """Put the port's MAC and address on a veth in a namespace of its own."""
    tap, ns, ip = "tap" + port.id[:11], f"vfy{number}", port.fixed_ips[0]
    sh(f"ip netns add {ns}")
    sh(f"ip link add {tap} type veth peer name eth0 netns {ns}")
    sh(f"ip link set {tap} up")
    sh(f"ip -n {ns} link set eth0 address {port.mac_address} mtu {network.mtu}")
    sh(f"ip -n {ns} link set lo up; ip -n {ns} link set eth0 up")
    sh(f"ip -n {ns} addr add {ip['ip_address']}/24 dev eth0")
    # The userspace datapath passes frames on as they are: without this the
    # kernel leaves TCP checksums to a network card that is not there.
    sh(f"ip netns exec {ns} ethtool -K eth0 tx off")
    sh(
        f"ovs-vsctl add-port br-int {tap} -- set Interface {tap} "
        f"external_ids:iface-id={port.id} external_ids:iface-status=active "
        f"external_ids:attached-mac={port.mac_address}"
    )
    return ns, tap


network = net.create_network(name="verify")
subnet = net.create_subnet(network_id=network.id, ip_version=4, cidr="10.77.0.0/24", name="verify")
group = net.create_security_group(name="verify")
net.create_security_group_rule(security_group_id=group.id, direction="ingress", protocol="icmp", ethertype="IPv4")
net.create_security_group_rule(
    security_group_id=group.id,
    direction="ingress",
    protocol="tcp",
    port_range_min=8000,
    port_range_max=8000,
    ethertype="IPv4",
)
ports, plugged = [], []
try:
    print("network", network.id, "mtu", network.mtu)
    for n in (1, 2):
        port = net.create_port(
            network_id=network.id,
            binding_host_id=host,
            device_owner="compute:verify",
            device_id=f"v{n}",
            security_groups=[group.id],
        )
        ports.append(port)
        print(
            "port",
            port.id,
            port.fixed_ips[0]["ip_address"],
            port.status,
            port.binding_vif_type,
            port.binding_vif_details,
        )
        plugged.append(plug(port, n))
    for port in ports:
        begin = time.time()
        while net.get_port(port.id).status != "ACTIVE":
            if time.time() - begin > 60:
                raise SystemExit(f"port {port.id} is {net.get_port(port.id).status} after 60 s")
            time.sleep(0.2)
        print("  ACTIVE after %.1f s" % (time.time() - begin))
    address = ports[1].fixed_ips[0]["ip_address"]
    print(sh(f"ip netns exec vfy1 busybox ping -c 3 -W 2 {address}").stdout.strip())
    for number, wanted in ((8000, True), (8001, False)):
        server = subprocess.Popen(
            f"ip netns exec vfy2 timeout 8 busybox nc -l -p {number} -e busybox head -c 20000000 /dev/zero", shell=True
        )
        begin = time.time()
        while f":{number} " not in sh("ip netns exec vfy2 ss -Hltn").stdout:
            assert time.time() - begin < 10, f"nobody listens on {number}"
            time.sleep(0.05)
        done = sh(f"ip netns exec vfy1 timeout 5 busybox nc -w 4 {address} {number} </dev/null | wc -c", check=False)
        server.kill()
        got = int(done.stdout)
        print(f"tcp {number}: {got} bytes")
        assert (got == 20000000) == wanted, done
    print("OK")
finally:
    for ns, tap in plugged:
        sh(f"ovs-vsctl --if-exists del-port br-int {tap}", check=False)
        sh(f"ip link del {tap}; ip netns del {ns}", check=False)
    for port in ports:
        net.delete_port(port)
    net.delete_security_group(group)
    net.delete_network(network)
