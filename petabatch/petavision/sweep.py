"""`ParameterSweep`: one network with a table `[sweep]` where that can be, else one network for each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from petabatch.errors import ParamsError
from petabatch.network.build import build
from petabatch.petavision.draft import Table
from petabatch.petavision.grammar import Entry, Group, ParamsFile
from petabatch.spec.network import Network


def points(source: ParamsFile) -> list[ParamsFile]:
    """Return the parameter file with each of the swept values in turn; of all sweeps at once."""
    count = max((len(values) for values in source.sweeps.values()), default=1)
    found = []
    for number in range(count):
        groups = dict(source.groups)
        for (name, key), values in source.sweeps.items():
            if name not in groups:
                raise source.error(
                    values[0].place, f"there is no group of the name {name}", found=f"{name}:{key}"
                )
            groups[name] = _with(groups[name], key, values[number])
        found.append(replace(source, groups=groups))
    return found


def _with(group: Group, key: str, value: Entry) -> Group:
    return replace(group, entries={**group.entries, key: value})


def swept(tables: Sequence[Table]) -> Table | None:
    """Return the tables of one network with `[sweep]`, None where other than its numbers differ."""
    flat = [dict(_leaves(one, ())) for one in tables]
    paths = list(dict.fromkeys(path for one in flat for path in one))
    if any(one.keys() != flat[0].keys() for one in flat):
        networks = [_validated(one) for one in tables]
        for one, network in zip(flat, networks, strict=True):
            for path in paths:
                one.setdefault(path, _default(network, path))  # defaults are left out of the tables
    differ = {
        path: [one[path] for one in flat] for path in paths if any(one[path] != flat[0][path] for one in flat)
    }
    if not differ:
        return tables[0]
    if any(type(value) not in (int, float) for values in differ.values() for value in values):
        return None
    named = {".".join(path): values for path, values in differ.items()}
    sweep: Table = {"combine": "zip", **named} if len(named) > 1 else {**named}
    found = {**tables[0], "sweep": sweep}
    try:
        build(Network.model_validate({**tables[0], "sweep": _nested(sweep)}))
    except (ParamsError, ValueError):
        return None
    return found


def _validated(tables: Table) -> Network | None:
    try:
        return Network.model_validate(tables)
    except (ParamsError, ValueError):
        return None


def _default(network: Network | None, path: tuple[str, ...]) -> object:
    """Return the value of a key that a params file leaves out."""
    found: Any = network
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else getattr(found, key, None)
    return found


def _nested(sweep: Mapping[str, Any]) -> Table:
    """Return the table as TOML has it: dotted keys are tables in tables."""
    found: Table = {}
    for path, value in sweep.items():
        *outer, last = path.split(".")
        inner = found
        for key in outer:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return found


def _leaves(value: Any, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        return [leaf for key, inner in value.items() for leaf in _leaves(inner, (*path, key))]
    return [(path, value)]
