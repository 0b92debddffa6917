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
    cfg.IntOpt(
        "sample_size",
        default=32,
        min=0,
        help="Hosts, taken by chance, among which one is looked for first; only when none of them will do, all are "
        "looked at. 0 = always all.",
    ),
]
