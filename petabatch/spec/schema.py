"""The JSON Schema of params files, for editors that complete and check TOML."""

from __future__ import annotations

from typing import Any

from petabatch.spec.model import Part
from petabatch.spec.network import Network


def json_schema() -> dict[str, Any]:
    """Return JSON Schema 2020-12 of a network, with every type known now.

    A place that takes one part of a kind refers to all types of that kind; each type is a definition.
    """
    schema = Network.model_json_schema()
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    kinds: dict[str, list[dict[str, str]]] = {}
    for base in Part.__subclasses__():
        for part in base.choices().values():
            one = part.model_json_schema()
            definitions |= one.pop("$defs", {})
            definitions[part.__name__] = one
            kinds.setdefault(base.kind, []).append({"$ref": f"#/$defs/{part.__name__}"})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_fill(schema, kinds)}


def _fill(node: Any, kinds: dict[str, list[dict[str, str]]]) -> Any:
    """Replace every mark `{"part": kind}` by the choices of that kind."""
    if isinstance(node, list):
        return [_fill(item, kinds) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("part"), str):
        return {**{k: v for k, v in node.items() if k != "part"}, "anyOf": kinds.get(node["part"], [])}
    return {key: _fill(value, kinds) for key, value in node.items()}
