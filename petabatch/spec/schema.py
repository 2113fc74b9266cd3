"""The JSON Schema of params files, for editors that complete and check TOML."""

from __future__ import annotations

from typing import Any

from petabatch.spec.network import Network


def json_schema() -> dict[str, Any]:
    """Return JSON Schema 2020-12 of a network, with every type known now."""
    schema = Network.model_json_schema()
    definitions = schema.setdefault("$defs", {})
    _hoist(schema, definitions, top=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _hoist(node: Any, definitions: dict[str, Any], top: bool = False) -> None:
    """Move the definitions of nested schemas to the root, where references look for them."""
    if isinstance(node, dict):
        if not top and "$defs" in node:
            for name, definition in node.pop("$defs").items():
                if definitions.setdefault(name, definition) is definition:
                    _hoist(definition, definitions)
        for value in list(node.values()):
            _hoist(value, definitions)
    elif isinstance(node, list):
        for value in node:
            _hoist(value, definitions)
