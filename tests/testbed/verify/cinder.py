"""Walk a volume through Cinder's attach states, as Zun does it.

create, reserve, initialize_connection, os-brick connect, mkfs, mount, attach,
begin_detaching, disconnect, terminate_connection, detach, extend, delete.
Run as root with the zun or admin openrc sourced:  python cinder.py
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import openstack
from os_brick.initiator import connector as brick
from oslo_concurrency import lockutils
from oslo_privsep import priv_context

# os-brick starts 'sudo privsep-helper'; as root, 'env' does in place of sudo.
os.environ["PATH"] = os.path.dirname(sys.executable) + ":" + os.environ["PATH"] + ":/usr/sbin:/sbin"
priv_context.init(root_helper=["env"])
lockutils.set_defaults(tempfile.mkdtemp())
cloud = openstack.connect()
cinder = cloud.block_storage


def status(volume, wanted):
    end = time.time() + 60
    while time.time() < end:
        now = cinder.get_volume(volume.id).status
        if now == wanted:
            print("  status", now)
            return
        if now.startswith("error"):
            break
        time.sleep(0.3)
    raise SystemExit(f"volume is {now}, wanted {wanted}")


def sh(*cmd):
    print("  $", *cmd)
    return subprocess.run(cmd, check=True, capture_output=True, text=True).stdout


def attach_and_write(volume, text):
    print("attach")
    cinder.reserve_volume(volume)
    status(volume, "attaching")
    props = brick.get_connector_properties("env", "127.0.0.1", False, False, host=socket.gethostname())
    info = cinder.init_volume_attachment(volume, props)
    print("  connection", info["driver_volume_type"], info["data"]["device_path"])
    conn = brick.InitiatorConnector.factory(info["driver_volume_type"], "env")
    device = conn.connect_volume(info["data"])
    print("  os-brick", device)
    point = tempfile.mkdtemp()
    if text:
        sh("mkfs.ext4", "-q", device["path"])
    sh("mount", device["path"], point)
    cinder.attach_volume(volume, point, instance="11111111-2222-3333-4444-555555555555", host_name=socket.gethostname())
    status(volume, "in-use")
    note = os.path.join(point, "note")
    if text:
        with open(note, "w") as f:
            f.write(text)
    else:
        print("  read back:", Path(note).read_text())

    print("detach")
    cinder.begin_volume_detaching(volume)
    status(volume, "detaching")
    sh("umount", point)
    os.rmdir(point)
    conn.disconnect_volume(info["data"], device)
    cinder.terminate_volume_attachment(volume, props)
    attachment = cinder.get_volume(volume.id).attachments[0]
    cinder.detach_volume(volume, attachment["attachment_id"])
    status(volume, "available")
    left = sh("losetup", "--list", "--noheadings", "--output", "BACK-FILE")
    assert volume.id not in left, left


volume = cinder.create_volume(name="verify", size=1)
print("volume", volume.id)
status(volume, "available")
attach_and_write(volume, "kept")
print("extend")
cinder.extend_volume(volume, 2)
status(volume, "available")
assert cinder.get_volume(volume.id).size == 2
attach_and_write(volume, "")
print("delete")
cinder.delete_volume(volume)
cinder.wait_for_delete(volume)
print("OK")
