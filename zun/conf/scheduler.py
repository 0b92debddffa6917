"""[scheduler]"""

from oslo_config import cfg

GROUP = "scheduler"
OPTIONS = [
    cfg.ListOpt(
        "enabled_filters",
        default=["AvailabilityZoneFilter", "ComputeFilter", "RuntimeFilter"],
        help="Filters, in order.",
    ),
    cfg.IntOpt("max_placement_results", default=1000, min=1, help="Most candidates asked from Placement."),
]
