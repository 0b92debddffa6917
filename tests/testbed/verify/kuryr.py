"""Two Docker containers on a Neutron network through Kuryr, as Zun does it:
the ports exist first, Docker gets their addresses, and they turn ACTIVE.

Run as root with the zun or admin openrc sourced:
python kuryr.py [IMAGE]
"""

import socket
import subprocess
import sys
import time

import openstack

image = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:5000/library/busybox:latest"
# Debian's client: a newer one refuses --mac-address against a 20.10 daemon.
DOCKER = "/usr/bin/docker"
cloud = openstack.connect()
net = cloud.network


def docker(*args, check=True):
    print("  $ docker", *args)
    done = subprocess.run((DOCKER, *args), text=True, capture_output=True)
    if check and done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout.strip()


network = net.create_network(name="kuryr-verify")
subnet = net.create_subnet(network_id=network.id, ip_version=4, cidr="10.78.0.0/24", name="kuryr-verify")
group = net.create_security_group(name="kuryr-verify")
for protocol, low, high in (("icmp", None, None), ("tcp", 8000, 8000)):
    net.create_security_group_rule(
        security_group_id=group.id,
        direction="ingress",
        ethertype="IPv4",
        protocol=protocol,
        port_range_min=low,
        port_range_max=high,
    )
ports = []
try:
    docker("pull", image)
    docker(
        "network",
        "create",
        "--driver",
        "kuryr",
        "--ipam-driver",
        "kuryr",
        "--subnet",
        subnet.cidr,
        "--gateway",
        subnet.gateway_ip,
        "--ipam-opt",
        "neutron.subnet.uuid=" + subnet.id,
        "--ipam-opt",
        "neutron.net.shared=False",
        "--opt",
        "neutron.net.uuid=" + network.id,
        "--opt",
        "neutron.net.shared=False",
        "--opt",
        "neutron.subnet.uuid=" + subnet.id,
        network.id,
    )
    for n in (1, 2):
        port = net.create_port(
            network_id=network.id,
            name="kuryr-verify",
            device_owner="compute:kuryr",
            device_id=f"verify{n}",
            binding_host_id=socket.gethostname(),
            security_groups=[group.id],
        )
        ports.append(port)
        begin = time.time()
        docker(
            "run",
            "-d",
            "--name",
            f"verify{n}",
            "--network",
            network.id,
            "--ip",
            port.fixed_ips[0]["ip_address"],
            "--mac-address",
            port.mac_address,
            image,
            "nc",
            "-ll",
            "-p",
            "8000",
            "-e",
            "head",
            "-c",
            "20000000",
            "/dev/zero",
        )
        now = net.get_port(port.id)
        print(
            "port {} {} {} {} vif {}, container up after {:.1f} s".format(
                port.id,
                port.fixed_ips[0]["ip_address"],
                now.status,
                now.device_owner,
                now.binding_vif_type,
                time.time() - begin,
            )
        )
        assert now.status == "ACTIVE", now
    address = ports[1].fixed_ips[0]["ip_address"]
    print(docker("exec", "verify1", "ip", "addr", "show", "eth0"))
    print(docker("exec", "verify1", "ping", "-c", "3", address))
    got = docker("exec", "verify1", "sh", "-c", f"nc -w 5 {address} 8000 </dev/null | wc -c")
    print(f"tcp 8000: {got} bytes")
    assert got == "20000000"
    docker("exec", "verify2", "sh", "-c", "nc -l -p 8001 -e head -c 10 /dev/zero &")
    got = docker("exec", "verify1", "sh", "-c", f"nc -w 3 {address} 8001 </dev/null | wc -c")
    print(f"tcp 8001 (closed by the security group): {got} bytes")
    assert got == "0"
    docker("restart", "-t", "1", "verify2")
    print(docker("exec", "verify1", "ping", "-c", "2", address))
    print("OK")
finally:
    docker("rm", "-f", "verify1", "verify2", check=False)
    for port in ports:
        left = net.find_port(port.id)
        print("port after rm:", left and (left.status, left.device_owner))
        if left:
            net.delete_port(port)
    docker("network", "rm", network.id, check=False)
    net.delete_security_group(group)
    for left in net.ports(network_id=network.id):
        print("left over:", left.id, left.name, left.device_owner)
        net.delete_port(left)
    net.delete_network(network)
    # Only this check's own pool: Docker keeps the ids of Kuryr's pools, and a
    # Docker network whose pool is gone can start no more containers.
    for pool in net.subnet_pools(name="kuryrPool-" + subnet.cidr):
        print("left over: subnet pool", pool.name)
        net.delete_subnet_pool(pool)
