"""The reference of all keys of a params file, as Markdown, written from the models themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from petabatch.spec.model import Part
from petabatch.spec.network import Checkpoint, ConnectionOutput, LayerOutput, Output, Parallel, Run, Until
from petabatch.spec.schedule import Every

_TABLES = (
    ("[run]", Run),
    ("[run.until]", Until),
    ("[output]", Output),
    ("[output.layers.NAME]", LayerOutput),
    ("[output.connections.NAME]", ConnectionOutput),
    ("[checkpoint]", Checkpoint),
    ("[parallel]", Parallel),
)
_ROOMS = ("layers", "connections", "learning", "probes", "sources", "weights")
_BUILT_IN = [["petabatch", room] for room in _ROOMS]
"""Where the types live that come with petabatch; those of plug-ins are not described."""


def markdown() -> str:
    """Return the reference of every table and of every type known now."""
    lines = [
        "# All keys of a params file",
        "",
        "Written from the models by `petabatch schema --markdown`; `petabatch schema` prints JSON Schema.",
        'A schedule is a number of steps, `"50 steps"`, `"display"`, `"10 displays"` or `"never"`.',
        "At the top level: `title`, and `plugins`, an array of Python files ([extending](extending.md)).",
        "",
    ]
    for title, model in _TABLES:
        lines += [f"## `{title}`", "", _about(model), "", *_fields(model, {}), ""]
    for base in Part.__subclasses__():
        lines += [f"## Types of {base.kind}", ""]
        shared = base.model_fields
        if set(shared) - {"type"}:
            lines += [f"Keys of every {base.kind}:", "", *_fields(base, {}), ""]
        for name, part in base.choices().items():
            if part.__module__.split(".")[:2] in _BUILT_IN:
                lines += [f"### {base.kind} `{name}`", "", _about(part), "", *_fields(part, shared), ""]
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _about(model: type[BaseModel]) -> str:
    return inspect.cleandoc(model.__doc__ or "").replace("\n    ", "\n").strip()


def _fields(model: type[BaseModel], without: dict[str, FieldInfo]) -> Iterator[str]:
    fields = {
        name: field for name, field in model.model_fields.items() if name not in without and name != "type"
    }
    if not fields:
        return
    properties = model.model_json_schema()["properties"]
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in fields.items():
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{name}` | {_value(properties[name])} | {_default(field)} | {meaning} |"


def _value(schema: dict[str, Any]) -> str:
    """Return in a few words what a key takes."""
    if "part" in schema:
        return f"a {schema['part']}"
    if "anyOf" in schema:
        kinds = [_value(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return "schedule" if kinds == ["integer, at least 1", "string"] else " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(f"`{choice}`" for choice in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return "table"
    if schema.get("type") == "array":
        items = schema.get("prefixItems")
        return f"array of {len(items)}" if items else "array"
    limits = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    bounds = [f"{words} {schema[key]:g}" for key, words in limits.items() if key in schema]
    kind = {"object": "table"}.get(schema.get("type", ""), schema.get("type", "any"))
    return ", ".join([str(kind), *bounds])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    default = field.get_default(call_default_factory=True)
    if default is None or isinstance(default, (dict, BaseModel)) or default == ():
        return "-"
    if isinstance(default, Every):
        return f'`"{default}"`'.replace("1 displays", "display")
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return (
        f'`"{default}"`'
        if isinstance(default, str)
        else f"`{list(default) if isinstance(default, tuple) else default}`"
    )
