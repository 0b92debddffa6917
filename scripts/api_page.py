"""The page docs/reference/api.md, from the OpenAPI document that the product serves."""

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

from zun import conf
from zun.api.openapi import document
from zun.api.routes import ROUTES

INTRODUCTION = """\
# The REST API

What a request may hold, operation by operation, as the running product also tells it at `GET /openapi.json`,
with the schema of every answer. `X-Auth-Token` is a token of Keystone, or of `zun token create`.
`OpenStack-API-Version: container 1.N` chooses a microversion; without it 1.1 is spoken. Answers have
`X-OpenStack-Request-Id`. Beside the errors named with an operation: 400 (what is wrong is named), 401, 403, 406
(a version that is not served) and 503 (something that is needed does not answer). A rule is one of [the
policies](policies.md); where none is named, what is asked for decides.
"""
TITLES = {
    "discovery": "Versions and health",
    "container": "Containers",
    "container_action": "Actions of a container",
    "capsule": "Capsules",
    "event": "Status changes",
    "image": "Images",
    "network": "Networks",
    "registry": "Registries",
    "host": "Hosts",
    "service": "Services",
    "availability_zone": "Availability zones",
    "quota": "Quotas",
    "quota_class": "Quota classes",
}
USUAL = {"400", "401", "403", "406", "408", "413", "415", "503"}
_BOUNDS = {"minimum": "≥", "maximum": "≤", "minLength": "length ≥", "maxLength": "length ≤", "minItems": "at least",
           "maxItems": "at most", "pattern": "matches"}  # fmt: skip


def cell(text: Any) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


class Page:
    """The document as Markdown."""

    def __init__(self) -> None:
        control = SimpleNamespace(conf=conf.load([], files=[]))
        self.document = document(ROUTES, cast("Any", control))
        self.schemas: Mapping[str, Any] = self.document["components"]["schemas"]

    def text(self) -> str:
        by_tag: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {tag: [] for tag in TITLES}
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                by_tag[operation.get("tags", ["discovery"])[0]].append((path, method.upper(), operation))
        parts = [INTRODUCTION]
        for tag, operations in by_tag.items():
            parts.append(f"## {TITLES[tag]}\n")
            parts += [self._operation(*one) for one in operations]
        return "\n".join(parts)

    def _operation(self, path: str, method: str, operation: Mapping[str, Any]) -> str:
        good = [status for status in operation["responses"] if status < "300"]
        others = [status for status in operation["responses"] if status >= "300" and status not in USUAL]
        facts = [f"answers {', '.join(good)}" + (f"; errors {', '.join(others)}" if others else "")]
        facts += [
            self._served(one) for one in operation.get("parameters", ()) if one["name"] == "OpenStack-API-Version"
        ]
        if rule := operation.get("x-policy"):
            facts.append(f"rule `{rule}`")
        summary = operation["summary"] if operation["summary"].endswith((".", "?")) else f"{operation['summary']}."
        told = "; ".join(facts)
        lines = [f"### {method} {path}\n", f"{summary} {told[0].upper()}{told[1:]}.\n"]
        rows = list(self._rows(operation))
        if rows:
            lines += ["| name | in | what |", "|---|---|---|", *rows, ""]
        return "\n".join(lines)

    def _served(self, header: Mapping[str, Any]) -> str:
        words = header["description"].split()
        return f"versions {words[2]} to {words[4].rstrip(';.')}"

    def _rows(self, operation: Mapping[str, Any]) -> Iterable[str]:
        """One a name: many may come in the query or in the body."""
        found: dict[str, tuple[list[str], bool, str]] = {}

        def note(name: str, place: str, *, required: bool, meaning: str) -> None:
            places, needed, first = found.get(name, ([], False, meaning))
            found[name] = ([*places, place], needed or required, first)

        for one in operation.get("parameters", ()):
            if one["in"] != "path" and one["name"] != "OpenStack-API-Version":
                meaning = one.get("description") or self._shape(one["schema"])
                note(one["name"], one["in"], required=one["required"], meaning=meaning)
        for body in operation.get("requestBody", {}).get("content", {}).values():
            schema = self._resolved(body["schema"])
            for name, part in schema.get("properties", {}).items():
                note(name, "body", required=name in schema.get("required", ()), meaning=self._shape(part))
        for name, (places, needed, meaning) in found.items():
            yield f"| `{name}` | {' or '.join(places)}{', required' if needed else ''} | {cell(meaning)} |"

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        reference = schema.get("$ref")
        return self.schemas[reference.rpartition("/")[2]] if reference else schema

    def _shape(self, schema: Mapping[str, Any], depth: int = 0) -> str:
        """In a few words; what lies deeper is in the document."""
        schema = self._resolved(schema)
        if choices := schema.get("anyOf") or schema.get("oneOf"):
            shown = dict.fromkeys(self._shape(one, depth) for one in choices)
            return " or ".join(shown)
        values = schema.get("enum")
        if values and {"true", "false"} <= set(map(str, values)):
            return "boolean as text"
        if values:
            return "one of " + ", ".join(f"`{value}`" for value in values)
        if "const" in schema:
            return f"`{schema['const']}`"
        kinds = schema.get("type", "anything")
        shown = " or ".join(kinds) if isinstance(kinds, Sequence) and not isinstance(kinds, str) else str(kinds)
        if shown == "array" and schema.get("items") and depth < 2:
            shown = f"array of {self._shape(schema['items'], depth + 1)}"
        if shown == "object" and schema.get("properties") and depth < 2:
            shown = f"object with {', '.join(f'`{name}`' for name in schema['properties'])}"
        bounds = [f"{word} `{schema[name]}`" for name, word in _BOUNDS.items() if name in schema]
        return f"{shown} ({', '.join(bounds)})" if bounds else shown
