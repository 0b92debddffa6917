"""[pci]"""

from oslo_config import cfg

GROUP = "pci"
OPTIONS = [
    cfg.MultiStrOpt(
        "alias",
        default=[],
        help='A kind of device, as JSON: {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}. Requests name it in'
        " the hint pci:<name>.",
    ),
    cfg.MultiStrOpt(
        "passthrough_whitelist",
        default=[],
        help="Devices of a node, as JSON. Read and checked; no engine of this version gives PCI devices to containers,"
        " so a node offers none, and requests for them are refused.",
    ),
]
