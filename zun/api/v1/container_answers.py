"""JSON schemas of what the routes of containers answer, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

from zun.api.schemas import BOOLEAN, INTEGER, LINKS, NUMBER, TEXT, TEXT_OR_NULL, TEXTS, UUID, listed, obj
from zun.domain.lifecycle import Status

OPTIONAL = frozenset({"host", "image_pull_policy", "privileged", "runtime"})
"""Members that rules ``container:get_one:<member>`` hide from those who are no administrators."""

ADDRESS = obj({"addr": TEXT, "version": {"enum": [4, 6]}, "port": TEXT, "subnet_id": TEXT_OR_NULL,
               "preserve_on_delete": BOOLEAN})  # fmt: skip
_TEXTS = ("name", "project_id", "user_id", "image", "cpu_policy", "memory")
_MAYBE_TEXTS = (
    "status_reason", "status_detail", "task_state", "workdir", "hostname", "image_driver", "registry_id",
    "created_at", "updated_at", "host", "image_pull_policy", "runtime",
)  # fmt: skip
_BOOLEANS = ("interactive", "tty", "auto_remove", "auto_heal", "privileged")


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Null only in the answer of create."""
    return {**schema, "type": [schema["type"], "null"]}


ITEM: dict[str, Any] = {
    "uuid": UUID,
    "status": {"enum": [str(one) for one in Status]},
    **dict.fromkeys(_TEXTS, TEXT),
    **dict.fromkeys(_MAYBE_TEXTS, TEXT_OR_NULL),
    **dict.fromkeys(_BOOLEANS, BOOLEAN),
    "cpu": NUMBER,
    "disk": INTEGER,
    **dict.fromkeys(("command", "entrypoint", "security_groups"), _or_null(listed(TEXT))),
    "ports": _or_null(listed(INTEGER)),
    **dict.fromkeys(("environment", "labels", "restart_policy"), _or_null(TEXTS)),
    "addresses": {"type": ["object", "null"], "additionalProperties": listed(ADDRESS)},
    "healthcheck": _or_null(
        obj({"test": TEXT, "interval": INTEGER, "retries": INTEGER, "timeout": INTEGER},
            frozenset({"test", "interval", "retries", "timeout"}))
    ),
}  # fmt: skip
"""Members of a container in lists."""

CONTAINER = obj({**ITEM, "links": LINKS}, OPTIONAL)

STATS = obj(
    {
        "CONTAINER": TEXT,
        **dict.fromkeys(("CPU %", "MEM USAGE(MiB)", "MEM LIMIT(MiB)", "MEM %"), NUMBER),
        "BLOCK I/O(B)": TEXT,
        "NET I/O(B)": TEXT,
    }
)
EXECUTED = obj(
    {
        "output": TEXT_OR_NULL,
        "exit_code": {"type": ["integer", "null"]},
        "exec_id": TEXT_OR_NULL,
        "proxy_url": TEXT_OR_NULL,
    }
)
TOP = obj({"Titles": listed(TEXT), "Processes": listed(listed(TEXT))})
_IP = {"subnet_id": TEXT_OR_NULL, "version": {"enum": [4, 6]}, "ip_address": TEXT}
ADDRESSES = obj({"networks": listed(obj({"net_id": TEXT, "port_id": TEXT_OR_NULL, **_IP}))})
"""network_list up to 1.17: an entry an address."""
PORTS = obj({"networks": listed(obj({"net_id": TEXT, "port_id": TEXT_OR_NULL, "fixed_ips": listed(obj(_IP))}))})
"""network_list from 1.18: an entry a port."""
COMMITTED = obj({"uuid": UUID})
ARCHIVE = obj(
    {
        "data": TEXT,
        "stat": obj({"name": TEXT, "size": INTEGER, "mode": INTEGER, "mtime": TEXT, "linkTarget": TEXT}),
    }
)
