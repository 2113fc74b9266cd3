"""TOML text of a network, as a person would write it."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 100


def toml(
    tables: Mapping[str, Any],
    header: Sequence[str] = (),
    comments: Mapping[tuple[str, str], Sequence[str]] | None = None,
) -> str:
    """Return the text of nested tables: those of `layers`, `connections` and `probes` one by one.

    `header` are lines at the beginning, `comments` those before a table, by kind and name.
    """
    said = comments or {}
    blocks = ["\n".join(_comment(header))] if header else []
    plain = {key: value for key, value in tables.items() if not isinstance(value, Mapping)}
    if plain:
        blocks.append("\n".join(_pairs(plain)))
        if header:
            blocks = ["\n".join(blocks)]
    for kind, table in tables.items():
        if not isinstance(table, Mapping):
            continue
        if kind in ("layers", "connections", "probes"):
            for name, one in table.items():
                before = _comment(said.get((kind, name), ()))
                blocks.append("\n".join([*before, f"[{kind}.{_single(name)}]", *_pairs(one)]))
        elif kind == "output":
            blocks += ["\n".join([f"[output.{part}]", *_pairs(one)]) for part, one in table.items()]
        else:
            before = _comment(said.get((kind, ""), ()))
            blocks.append("\n".join([*before, f"[{kind}]", *_pairs(table, dotted=kind == "sweep")]))
    return "\n\n".join(blocks) + "\n"


def _comment(lines: Sequence[str]) -> list[str]:
    return [
        f"# {line}".rstrip()
        for text in lines
        for line in textwrap.wrap(text, _WIDTH, subsequent_indent="  ", break_on_hyphens=False) or [""]
    ]


def _pairs(table: Mapping[str, Any], dotted: bool = False) -> Iterator[str]:
    for name, value in table.items():
        yield f"{key(name) if dotted else _single(name)} = {_value(value)}"


def key(name: str) -> str:
    """Return a key, or a path of keys with dots, in quotes where it needs them."""
    return ".".join(part if _BARE.fullmatch(part) else _string(part) for part in name.split("."))


def _single(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_single(name)} = {_value(one)}' for name, one in value.items())} }}"
    return f"[{', '.join(map(_value, value))}]"


def _number(value: float) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(float(value)).replace("e+", "e")
