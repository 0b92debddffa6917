"""Test-only Cinder backend: a volume is a sparse file, attached as a loop device.

initialize_connection() answers driver_volume_type 'local' with a device_path,
so os-brick's LOCAL connector uses /dev/loopN as it is.  Connector and backend
must therefore be on the same host.  The service must run as root.
"""

import os

from cinder import coordination, exception, interface
from cinder.volume import configuration, driver
from oslo_concurrency import processutils
from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)
OPTS = [
    cfg.StrOpt(
        "loop_volumes_dir", default="/var/lib/cinder/loop-volumes", help="Folder of the files that hold the volumes."
    ),
    cfg.IntOpt("loop_capacity_gb", default=1000, help="Capacity to report; the files are sparse."),
]
cfg.CONF.register_opts(OPTS, group=configuration.SHARED_CONF_GROUP)


def run(*cmd):
    return processutils.execute(*cmd)[0].strip()


@interface.volumedriver
class LoopDriver(driver.VolumeDriver):
    VERSION = "1.0.0"
    CI_WIKI_NAME = "none"
    SUPPORTED = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(OPTS)
        self.folder = self.configuration.loop_volumes_dir

    @classmethod
    def get_driver_options(cls):
        return OPTS

    def check_for_setup_error(self):
        os.makedirs(self.folder, exist_ok=True)
        run("losetup", "--all")

    def _update_volume_stats(self):
        name = self.configuration.safe_get("volume_backend_name") or "loop"
        self._stats = {
            "volume_backend_name": name,
            "vendor_name": "test",
            "driver_version": self.VERSION,
            "storage_protocol": "local",
            "total_capacity_gb": self.configuration.loop_capacity_gb,
            "free_capacity_gb": self.configuration.loop_capacity_gb,
            "thin_provisioning_support": True,
            "thick_provisioning_support": False,
            "max_over_subscription_ratio": 20.0,
            "multiattach": True,
        }

    # Files, named by Cinder's volume_name_template and snapshot_name_template.

    def _path(self, volume_or_snapshot):
        return os.path.join(self.folder, volume_or_snapshot["name"])

    def _grow(self, path, gigabytes):
        run("truncate", "--size", f"{gigabytes}G", path)

    def _copy(self, source, target):
        run("cp", "--sparse=always", "--reflink=auto", source, target)

    def _remove(self, path):
        self._detach(path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            LOG.warning("%s is already gone", path)

    def create_volume(self, volume):
        self._grow(self._path(volume), volume["size"])

    def delete_volume(self, volume):
        self._remove(self._path(volume))

    def extend_volume(self, volume, new_size):
        path = self._path(volume)
        self._grow(path, new_size)
        for device in self._devices(path):
            run("losetup", "--set-capacity", device)

    def create_snapshot(self, snapshot):
        self._copy(self._path(snapshot["volume"]), self._path(snapshot))

    def delete_snapshot(self, snapshot):
        self._remove(self._path(snapshot))

    def create_volume_from_snapshot(self, volume, snapshot):
        self._copy(self._path(snapshot), self._path(volume))
        self._grow(self._path(volume), volume["size"])

    def create_cloned_volume(self, volume, src_vref):
        self._copy(self._path(src_vref), self._path(volume))
        self._grow(self._path(volume), volume["size"])

    # Loop devices: attached while there is a connection.

    def _devices(self, path):
        listing = run("losetup", "--associated", path, "--noheadings", "--output", "NAME")
        return listing.split()

    def _detach(self, path):
        for device in self._devices(path):
            run("losetup", "--detach", device)

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    @coordination.synchronized("loop-{volume.id}")
    def initialize_connection(self, volume, connector, **kwargs):
        path = self._path(volume)
        if not os.path.exists(path):
            raise exception.VolumeNotFound(volume_id=volume["id"])
        devices = self._devices(path)
        device = devices[0] if devices else run("losetup", "--find", "--show", path)
        return {"driver_volume_type": "local", "data": {"device_path": device}}

    @coordination.synchronized("loop-{volume.id}")
    def terminate_connection(self, volume, connector, **kwargs):
        if volume.multiattach and len(volume.volume_attachment) > 1:
            return True  # another attachment still uses the device
        self._detach(self._path(volume))
        return False
