"""Values per slice, `[slices]`: the networks of slices that differ in numbers of their dynamics."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from pydantic import ValidationError

from petabatch.errors import Problem, did_you_mean
from petabatch.network.checks import check_whole_slices
from petabatch.spec.model import Model
from petabatch.spec.network import Network
from petabatch.spec.problems import problems as problems_of

KINDS = ("layers", "connections", "probes")
"""Tables whose numbers may differ."""
_SHARED = "its weights, and what they learn, belong to all slices"


def check_slices(network: Network, problems: list[Problem]) -> None:
    """Check that each key is a number of the dynamics, with a valid value for each slice."""
    for path, values in network.slices.items():
        found = _problem(network, path, values)
        if found is not None:
            problems.append(found)
    if network.slices:
        check_whole_slices(network, "slices", "values per slice are", problems)


def sliced(network: Network, number: int) -> Network:
    """Return the network of a slice, in which its values stand."""
    for path, values in network.slices.items():
        kind, name, *keys = path.split(".")
        tables = dict(getattr(network, kind))
        tables[name] = _with(tables[name], keys, values[number])
        network = network.model_copy(update={kind: tables})
    return network.model_copy(update={"slices": {}})


def points(network: Network) -> list[int]:
    """Return, for each slice, the first one that has the same values."""
    columns = list(zip(*network.slices.values(), strict=True)) or [()] * network.run.batch
    first: dict[tuple[float, ...], int] = {}
    return [first.setdefault(values, number) for number, values in enumerate(columns)]


def _problem(network: Network, path: str, values: Sequence[float]) -> Problem | None:
    kind, _, rest = path.partition(".")
    name, *keys = rest.split(".")
    tables: Mapping[str, Any] = getattr(network, kind) if kind in KINDS else {}
    if name not in tables or not keys:
        known = [f"{kind}.{name}" for kind in KINDS for name in getattr(network, kind)]
        return Problem(
            path,
            "values may differ among slices for layers, connections and probes",
            found=path,
            expected="KIND.NAME.KEY",
            hint=did_you_mean(f"{kind}.{name}", known),
        )
    table = tables[name]
    if not _is_number(table, keys) or keys[0] == "source":
        numbers = ", ".join(key for key in type(table).model_fields if _is_number(table, [key]))
        return Problem(
            path,
            "this cannot differ among slices",
            found=rest,
            expected=f"a number of the dynamics: {numbers}",
        )
    if kind == "connections" and keys[0] in ("learn", "init", "normalize"):
        shared = table.owner is None or table.owner.weights(network.layers).per == "network"
        if shared or keys[0] != "learn":
            why = _SHARED if shared else "all slices start from the same weights, normalised alike"
            return Problem(
                path, f"this cannot differ among slices: {why}", expected='a connection of mode "shared"'
            )
    if len(values) != network.run.batch:
        return Problem(
            path,
            "there is not one value for each slice",
            found=f"{len(values)} values",
            expected=f"{network.run.batch}, the batch size",
        )
    for number, value in enumerate(values):
        wrong = _wrong(table, keys, value)
        if wrong is not None:
            return replace(wrong, key=path, message=f"value {number + 1}: {wrong.message}")
    return None


def _is_number(table: Any, keys: Sequence[str]) -> bool:
    """Return whether the keys lead to a field that takes a real number."""
    for key in keys[:-1]:
        table = (
            getattr(table, key, None)
            if isinstance(table, Model) and key in type(table).model_fields
            else None
        )
    field = type(table).model_fields.get(keys[-1]) if isinstance(table, Model) else None
    return field is not None and float in (field.annotation, *get_args(field.annotation))


def _with(table: Any, keys: Sequence[str], value: float) -> Any:
    inner = value if len(keys) == 1 else _with(getattr(table, keys[0]), keys[1:], value)
    return table.model_copy(update={keys[0]: inner})


def _wrong(table: Any, keys: Sequence[str], value: float) -> Problem | None:
    """Return the problem of a value, None if it is valid."""
    holder = table
    for key in keys[:-1]:
        holder = getattr(holder, key)
    fields = {name: getattr(holder, name) for name in type(holder).model_fields} | {keys[-1]: value}
    try:
        with warnings.catch_warnings(action="ignore"):  # the table itself has warned
            type(holder).model_validate(fields)
    except ValidationError as error:
        return problems_of(error, type(holder), fields)[0]
    return None
