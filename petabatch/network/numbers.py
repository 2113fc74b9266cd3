"""Numbers of a network by key path: with another value, and what is wrong with values of a key."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, get_args, get_origin

from pydantic import ValidationError

from petabatch.errors import Problem, did_you_mean
from petabatch.spec.frozen import FrozenDict
from petabatch.spec.model import Model
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Layer, Source
from petabatch.spec.plasticity import Plasticity
from petabatch.spec.problems import problems as problems_of
from petabatch.weight_mode import over_slices

KINDS = ("layers", "connections", "probes")
"""Tables whose numbers may differ, apart from those of `RUN`."""
RUN = ("seed", "dt")
"""Keys of `[run]` that may differ."""
_SHARED = "its weights, and what they learn, belong to all slices"
_ONE_RULE = {
    "init": "weights are initialised and normalised by one rule",
    "normalize": "weights are initialised and normalised by one rule",
    "learn": "one rule draws what the learning rule starts from",
}
_OWN_START = "`{}.per_slice = true` starts each slice from values of its own, in modes without `extra_`"


def with_values(network: Network, values: Mapping[str, float], **others: object) -> Network:
    """Return the network with other values of key paths, and of its own keys."""
    changed: dict[str, Any] = {}
    for path, value in values.items():
        kind, *keys = path.split(".")
        if kind == "run":
            changed[kind] = _with(changed.get(kind, network.run), keys, value)
            continue
        name, *keys = keys
        tables = changed.setdefault(kind, dict(getattr(network, kind)))
        tables[name] = _with(tables[name], keys, value)
    return network.model_copy(update={**changed, **others})


def with_value(network: Network, path: str, value: float) -> Network:
    """Return the network with another value of a key path."""
    return with_values(network, {path: value})


def value_of(network: Network, path: str) -> float | None:
    """Return the number of a key path, None if it leads to none."""
    kind, *keys = path.split(".")
    table: Any = network.run if kind == "run" else getattr(network, kind) if kind in KINDS else None
    if table is None or not keys or not _is_number(table, keys):
        return None
    for key in keys:
        table = _inner(table, key)
    return float(table) if isinstance(table, int | float) else None  # `border` may also be a word


def is_plain(network: Network, path: str) -> bool:
    """Return whether a number of a key path is valid if it is finite, and changes only numbers of steps."""
    kind, _, rest = path.partition(".")
    name, *keys = rest.split(".")
    tables: Mapping[str, Layer | Connection]
    tables = network.layers if kind == "layers" else network.connections if kind == "connections" else {}
    return name in tables and tables[name].plain(keys)


def is_source(network: Network, path: str) -> bool:
    """Return whether a key path is that of the images of a layer, on which its steps do not depend."""
    kind, name, key, *_ = (*path.split("."), "", "")
    return kind == "layers" and key == "source" and network.layers[name].images is not None


def problem_of_values(
    network: Network,
    key: str,
    path: str,
    values: Sequence[float],
    count: int | None = None,
    over_time: bool = False,
) -> Problem | None:
    """Return what is wrong with values of a key path, given under `key`; there must be `count`.

    Over time, rules of weights that belong to all slices may change, too.
    """
    vary = "change over time" if over_time else "differ among slices"
    kind, _, rest = path.partition(".")
    name, *keys = rest.split(".")
    if kind == "run":
        return _run_problem(network, key, rest, values, count)
    tables: Mapping[str, Any] = getattr(network, kind) if kind in KINDS else {}
    known = [f"{kind}.{name}" for kind in KINDS for name in getattr(network, kind)]
    if kind in KINDS and name and name not in tables:
        elsewhere = [one for one in known if one.partition(".")[2] == name]
        return Problem(
            key,
            f"there is no {kind.removesuffix('s')} {name}",
            found=path,
            expected=", ".join(tables) or "none is defined",
            hint=f"did you mean {elsewhere[0]}?" if elsewhere else did_you_mean(name, tables),
        )
    if name not in tables or not keys:
        without_kind = [f"{one}.{name}" for one in known if name and one.partition(".")[2] == kind]
        without_kind += [
            f"{one}.{kind}" for one in known if not name and value_of(network, f"{one}.{kind}") is not None
        ]
        nearest = (
            f"did you mean {without_kind[0]}?" if without_kind else did_you_mean(f"{kind}.{name}", known)
        )
        return Problem(
            key,
            f"values may {vary} for layers, connections and probes",
            found=path,
            expected="KIND.NAME.KEY",
            hint="" if kind in KINDS else nearest,
        )
    table = tables[name]
    if is_source(network, path):
        if over_time:
            why, expected = (
                "images are read ahead of the steps",
                "values per slice, or a number of the dynamics",
            )
            return Problem(key, f"this cannot {vary}: {why}", found=rest, expected=expected)
        return _source_problem(table.images.source, keys, key) or _wrong_values(
            table, keys, key, values, count
        )
    if not _is_number(table, keys) or keys[0] == "start":  # starts are drawn for each slice, if at all
        numbers, learn = _numbers(table), _inner(table, keys[0])
        if keys[0] == "learn" and isinstance(learn, Model):
            numbers = [f"learn.{key}" for key in _numbers(learn)]
        own = f"parameters.{'.'.join(keys)}"
        return Problem(
            key,
            f"this cannot {vary}" if _exists(table, keys) else "there is no such key",
            found=rest,
            expected=f"a number of the dynamics: {', '.join(numbers)}",
            hint=f"did you mean {own}?" if own in numbers else did_you_mean(".".join(keys), numbers),
        )
    if kind == "connections" and keys[0] in ("init", "normalize", "learn", "decorrelate", "revive"):
        owner = table.patch_owner
        if owner is None and keys[0] == "learn":
            return _synaptic_problem(network, key, path, over_time)
        learns = owner is not None and (over_time or not over_slices(owner.mode))
        started = [] if owner is None or owner.learn is None else owner.learn.starts.values()
        of_rule = keys[0] == "learn" and keys[1:2] in ([one] for one, _ in started)
        if keys[0] in ("init", "normalize") or of_rule:
            start = f"learn.{keys[1]}" if of_rule else keys[0]
            return Problem(
                key,
                f"this cannot {vary}: {_ONE_RULE[keys[0]]}",
                expected=f"a number of the dynamics{' or of `learn`' if learns else ''}",
                hint="" if over_time or start == "normalize" else _OWN_START.format(start),
            )
        if not learns and not over_time:
            return Problem(key, f"this cannot {vary}: {_SHARED}", expected='a connection of mode "shared"')
    if over_time and _is_drawn(table, keys):
        return Problem(
            key,
            "this cannot change over time: it decides what is drawn before the first step",
            found=rest,
            expected="a number of the dynamics",
        )
    return _wrong_values(table, keys, key, values, count)


def _source_problem(source: Source, keys: Sequence[str], key: str) -> Problem | None:
    """Return why a key of the source of a layer cannot differ among slices, None if it can."""
    numbers = list(_numbers_of(source))
    if ".".join(keys) not in numbers:
        return Problem(
            key,
            "this cannot differ among slices",
            found=".".join(keys),
            expected=f"a number of the images: {', '.join(numbers) or 'this source has none'}",
            hint=did_you_mean(".".join(keys), numbers),
        )
    first = int(keys[2]) if keys[1] == "transforms" else 0
    fitted = [step.type for step in source.steps[first:] if step.unfitted]
    if not fitted and (source.steps or not source.unfitted):
        return None
    return Problem(
        key,
        "this cannot differ among slices: a transform is fitted to the images of all",
        found=", ".join(fitted) or source.type,
        expected="one run for each value, or a number of a transform after it",
    )


def _numbers_of(source: Source) -> Iterator[str]:
    """Yield the keys of a source and its transforms that take a real number; its order is a schedule."""
    steps = enumerate(_inner(source, "transforms") or ())
    tables: dict[str, Model] = {"source": source, **{f"source.transforms.{n}": step for n, step in steps}}
    for place, table in tables.items():
        yield from (f"{place}.{key}" for key in type(table).model_fields if _is_number(table, [key]))


def _numbers(table: Model) -> list[str]:
    """Return the keys of the numbers of a table, and of those that are given by name."""
    named = [key for key in ("parameters", "traces") if _inner(table, key)]
    return [
        *(key for key in type(table).model_fields if key not in named and _is_number(table, [key])),
        *(f"{key}.{name}" for key in named for name, one in _inner(table, key).items() if type(one) is float),
    ]


def trace_problem(network: Network, key: str, path: str) -> Problem | None:
    """Return why a number cannot change in a run if it is a time constant of traces of synapses."""
    now, other = _plasticities(network, path)
    if now is None or other is None or now.traces == other.traces:
        return None
    # Traces are brought up to date at events: by one factor for all the time since their last change.
    text = "this cannot change over time: traces decay with one time constant from spike to spike"
    return Problem(key, text, path, "a number of `parameters`, or values per slice")


def _synaptic_problem(network: Network, key: str, path: str, over_time: bool) -> Problem | None:
    """Return why a number of a rule of single synapses cannot vary."""
    _, name, _, *keys = path.split(".")
    vary = "change over time" if over_time else "differ among slices"
    if keys[:1] == ["start"]:
        return Problem(key, f"this cannot {vary}: {_ONE_RULE['learn']}")
    if over_time:
        return trace_problem(network, key, path)
    now, other = _plasticities(network, path)
    shared = (owner := network.connections[name].owner) is not None and over_slices(owner.mode)
    if shared and now is not None and other is not None and now.bounds != other.bounds:
        text = f"this cannot {vary}: the weights that it bounds belong to all slices"
        return Problem(key, text, path, 'a connection of mode "non_shared"')
    return None


def _plasticities(network: Network, path: str) -> tuple[Plasticity | None, Plasticity | None]:
    """Return the rule of the synapses that a number is of, and that with another value of the number."""
    kind, name, *keys = path.split(".")
    value = value_of(network, path)
    if kind != "connections" or keys[:1] != ["learn"] or value is None:
        return None, None
    changed = with_value(network, path, value + 1.0)
    owners = [one.connections[name].owner for one in (network, changed)]
    now, other = (None if owner is None else owner.plasticity for owner in owners)
    return now, other


def _run_problem(
    network: Network, key: str, name: str, values: Sequence[float], count: int | None
) -> Problem | None:
    if name not in RUN:
        expected = ", ".join(f"run.{name}" for name in RUN)
        return Problem(key, "this cannot differ among slices", found=f"run.{name}", expected=expected)
    return _wrong_values(network.run, [name], key, values, count)


def _wrong_values(
    table: Any, keys: Sequence[str], key: str, values: Sequence[float], count: int | None
) -> Problem | None:
    """Return the problem of the number of values, or of the first that is wrong."""
    if count is not None and len(values) != count:
        return Problem(
            key,
            "there is not one value for each slice",
            found=f"{len(values)} values",
            expected=f"{count}, the batch size",
        )
    with warnings.catch_warnings(action="ignore"):  # the table itself has warned
        for number, value in enumerate(values):
            wrong = _wrong(table, keys, value)
            if wrong is not None:
                return replace(wrong, key=key, message=f"{said(number)}{wrong.message}")
    return None


def said(number: int) -> str:
    """Return how a message begins that is about one of several values; like slices, they count from 0."""
    return f"value {number} (from 0): "


def _is_drawn(table: Any, keys: Sequence[str]) -> bool:
    """Return whether what is drawn before the first step follows from a number."""
    tables = itertools.accumulate(keys[:-1], _inner, initial=table)
    return any(isinstance(one, Model) and one.draws_from(key) for one, key in zip(tables, keys, strict=True))


def _exists(table: Any, keys: Sequence[str]) -> bool:
    """Return whether the keys lead to a field of a table, or to a number that is given by name."""
    for key in keys[:-1]:
        table = _inner(table, key)
    if isinstance(table, Model):
        return keys[-1] in type(table).model_fields
    return isinstance(table, dict) and keys[-1] in table


def _is_number(table: Any, keys: Sequence[str]) -> bool:
    """Return whether the keys lead to a field that takes a real number."""
    for key in keys[:-1]:
        table = _inner(table, key)
    if isinstance(table, dict):  # numbers by name
        return type(table.get(keys[-1])) in (int, float)
    field = type(table).model_fields.get(keys[-1]) if isinstance(table, Model) else None
    return field is not None and _takes_a_number(field.annotation)


def _takes_a_number(annotation: Any) -> bool:
    return annotation is float or any(
        one is float or (get_origin(one) is Annotated and get_args(one)[0] is float)
        for one in get_args(annotation)
    )


def _inner(table: Any, key: str) -> Any:
    """Return what a key of a table, or the number or the name of one of several, leads to, if anything."""
    if isinstance(table, tuple):
        return table[int(key)] if key.isdecimal() and int(key) < len(table) else None
    if isinstance(table, dict):
        return table.get(key)
    return getattr(table, key, None) if isinstance(table, Model) and key in type(table).model_fields else None


def _with(table: Any, keys: Sequence[str], value: float) -> Any:
    """Return a table, or several by number or by name, with another value."""
    key, *rest = keys
    if isinstance(table, tuple):
        at = int(key)
        return (*table[:at], _with(table[at], rest, value), *table[at + 1 :])
    if isinstance(table, dict):
        return FrozenDict({**table, key: _with(table[key], rest, value) if rest else value})
    inner = _with(getattr(table, key), rest, value) if rest else _as_number(table, key, value)
    return table.model_copy(update={key: inner})


def _as_number(table: Any, key: str, value: float) -> float:
    """Return a value as a number of its key's type: seeds are whole."""
    whole = isinstance(getattr(table, key), int) and float(value).is_integer()
    return int(value) if whole else value


def _wrong(table: Any, keys: Sequence[str], value: float) -> Problem | None:
    """Return the problem of a value, in its own table or in one around it; None if it is valid."""
    key, *rest = keys
    if rest and (wrong := _wrong(_inner(table, key), rest, value)) is not None:
        return wrong
    if not isinstance(table, Model):
        return None
    changed = _with(table, keys, value)
    fields = {name: getattr(changed, name) for name in type(table).model_fields}
    try:
        type(table).model_validate(fields, context=table.context)
    except ValidationError as error:
        return problems_of(error, type(table), fields)[0]
    return None
