"""[oslo_messaging_notifications]: what other services are told about operations."""

from oslo_config import cfg, types

GROUP = "oslo_messaging_notifications"
OPTIONS = [
    cfg.ListOpt(
        "driver",
        default=[],
        item_type=types.String(choices=["noop", "log", "messaging", "messagingv2"]),
        help="How operations are told: messagingv2 (RabbitMQ, in the envelope of version 2.0), messaging (without it),"
        " log, noop; empty: not at all.",
    ),
    cfg.ListOpt("topics", default=["notifications"], help="Queues are named <topic>.info and <topic>.error."),
    cfg.StrOpt("transport_url", secret=True, help="RabbitMQ for notifications; none: that of [DEFAULT]/transport_url."),
    cfg.IntOpt(
        "retry",
        default=-1,
        min=-1,
        help="New tries of a notification that the broker did not confirm; -1: without limit.",
    ),
    cfg.BoolOpt(
        "amqp_durable_queues",
        default=True,
        help="Make the queues durable where they are not there yet; their consumers have to declare them alike.",
    ),
]
