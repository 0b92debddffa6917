"""A consumer of the cloud, as ceilometer is one: oslo.messaging's notification listener. Imports nothing of ours.

Arguments: its configuration file, the topic. Each notification is a line of JSON; it ends with standard input.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import oslo_messaging
from oslo_config import cfg


class EndPoint:
    """Is called with what comes, by its priority."""

    def _tell(self, priority: str, *told: Any) -> None:
        names = ("context", "publisher_id", "event_type", "payload", "metadata")
        print(json.dumps({"priority": priority, **dict(zip(names, told, strict=True))}), flush=True)

    def info(self, *told: Any) -> None:
        self._tell("info", *told)

    def error(self, *told: Any) -> None:
        self._tell("error", *told)


def main() -> None:
    """See the module."""
    file, topic = sys.argv[1:]
    conf = cfg.ConfigOpts()
    conf(["--config-file", file], project="listener")
    transport = oslo_messaging.get_notification_transport(conf)
    targets = [oslo_messaging.Target(topic=topic)]
    listener = oslo_messaging.get_notification_listener(transport, targets, [EndPoint()], executor="threading")
    listener.start()
    sys.stdin.read()
    listener.stop()
    listener.wait()
    transport.cleanup()


if __name__ == "__main__":
    main()
