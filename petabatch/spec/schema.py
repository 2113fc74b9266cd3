"""The JSON Schema of params files, for completion and checking in editors."""

from __future__ import annotations

from typing import Any

from petabatch.spec.model import Part
from petabatch.spec.network import Network


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a network, with all types imported so far.

    Each type is a definition; a key that takes a part refers to the definitions of all types of its kind.
    """
    schema = Network.model_json_schema()
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    kinds: dict[str, list[dict[str, str]]] = {}
    for base in Part.__subclasses__():
        for part_type, part in base.choices().items():
            one = part.model_json_schema()
            definitions |= one.pop("$defs", {})
            # `type` selects the choice, so it is required although the models have a default for it.
            one["required"] = ["type", *(key for key in one.get("required", ()) if key != "type")]
            name = f"{base.__name__}.{part_type}"  # two kinds may use the same class name
            definitions[name] = one
            kinds.setdefault(base.kind, []).append({"$ref": f"#/$defs/{name}"})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_fill(schema, kinds)}


def _fill(node: Any, kinds: dict[str, list[dict[str, str]]]) -> Any:
    """Replace every placeholder `{"part": kind}` by the choices of that kind."""
    if isinstance(node, list):
        return [_fill(item, kinds) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("part"), str):
        return {**{k: v for k, v in node.items() if k != "part"}, "anyOf": kinds.get(node["part"], [])}
    return {key: _fill(value, kinds) for key, value in node.items()}
