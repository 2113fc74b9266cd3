"""Values per slice, `[slices]` and `[sweep]`: the networks of slices that differ in numbers."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from pydantic import ValidationError

from petabatch.errors import Problem, did_you_mean
from petabatch.network.checks import check_whole_slices
from petabatch.spec.model import Model
from petabatch.spec.network import Network
from petabatch.spec.parts import WeightOwner
from petabatch.spec.problems import problems as problems_of
from petabatch.variable import Coordinate, Stream

KINDS = ("layers", "connections", "probes")
"""Tables whose numbers may differ, besides `RUN`."""
RUN = ("seed", "dt")
"""Keys of `[run]` that may differ."""
_SHARED = "its weights, and what they learn, belong to all slices"


def check_slices(network: Network, problems: list[Problem]) -> None:
    """Check that each key is a number of the dynamics, with a valid value for each slice or point."""
    for path, values in network.slices.items():
        found = problem_of_values(network, path, path, values, network.run.batch)
        if found is not None:
            problems.append(found)
    if network.sweep is not None:
        problems += _sweep_problems(network)
    if network.slices or network.sweep is not None:
        check_whole_slices(network, "slices" if network.slices else "sweep", "values per slice are", problems)


def own_values(network: Network, number: int) -> dict[str, float]:
    """Return what a slice does not share with all others, by key path."""
    point, within = divmod(number, network.run.batch)
    found = {path: values[within] for path, values in network.slices.items()}
    return found if network.sweep is None else found | network.sweep.point(point)


def sliced(network: Network, number: int) -> Network:
    """Return the network of a slice, in which its values stand; its batch is that of one point."""
    for path, value in own_values(network, number).items():
        network = with_value(network, path, value)
    return network.model_copy(update={"slices": {}, "sweep": None})


def with_value(network: Network, path: str, value: float) -> Network:
    """Return the network with another value of a key path."""
    kind, *keys = path.split(".")
    if kind == "run":
        return network.model_copy(update={"run": _with(network.run, keys, value)})
    name, *keys = keys
    tables = dict(getattr(network, kind))
    tables[name] = _with(tables[name], keys, value)
    return network.model_copy(update={kind: tables})


def within_point(network: Network, numbers: range) -> range:
    """Return the numbers that these slices have in their point: those of its images and random numbers.

    Without a sweep they are those in the batch.
    """
    first = numbers.start % network.run.batch
    return range(first, first + len(numbers))


def seed_of(network: Network, number: int) -> int:
    """Return the seed of a slice."""
    return int(own_values(network, number).get("run.seed", network.run.seed))


def first_of_seeds(network: Network) -> list[int]:
    """Return a slice of each seed that there is."""
    found: dict[int, int] = {}
    for number in range(network.batch) if "run.seed" in own_values(network, 0) else (0,):
        found.setdefault(seed_of(network, number), number)
    return list(found.values())


def check_fits(network: Network) -> list[Problem]:
    """Check that transforms, which are fitted once for all slices, would be the same in the run of each."""
    if len(seeds := first_of_seeds(network)) == 1:
        return []
    return [
        Problem(
            "sweep.run.seed" if network.sweep is not None else "run.seed",
            f"the source of layer {name} is fitted to random images, and to those of one seed",
            found=f"{len(seeds)} seeds",
            expected="one run for each seed, or no random transform before the one that is fitted",
        )
        for name, layer in network.layers.items()
        if layer.images is not None and layer.images.source.fitted_by_chance
    ]


def coordinates(network: Network, streams: Iterable[Stream]) -> tuple[Coordinate, ...]:
    """Return what the slices of a batch differ in, under names that can stand beside the streams."""
    taken = {"batch", "step", "time", "file"} | {n for s in streams for n in (s.leaf, *s.dims)}
    found = []
    own = [own_values(network, number) for number in range(network.batch)]
    for path, name in _short_names(list(own[0]), taken).items():
        kind = int if path == "run.seed" else float
        values = tuple(kind(one[path]) for one in own)
        found.append(Coordinate(name, values, path, f"{path} of the slice"))
    if network.sweep is not None:
        batch = network.run.batch
        numbers = {
            "point": (tuple(n // batch for n in range(network.batch)), "point of the sweep"),
            "slice": (tuple(n % batch for n in range(network.batch)), "slice of the point"),
        }
        found += [Coordinate(name, values, "", text) for name, (values, text) in numbers.items()]
    return tuple(found)


def _short_names(paths: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Return the shortest end of each key path that tells it from the others, joined by underscores."""
    found = {}
    for path in paths:
        parts = path.split(".")
        ends = ["_".join(parts[-count:]) for count in range(1, len(parts) + 1)]
        others = {
            "_".join(p.split(".")[-n:]) for p in paths if p != path for n in range(1, 1 + p.count(".") + 1)
        }
        free = [end for end in ends if end not in others and end not in (*taken, "point", "slice")]
        found[path] = free[0] if free else ends[-1]
    return found


def _sweep_problems(network: Network) -> Iterator[Problem]:
    """Yield what is wrong with a sweep."""
    assert network.sweep is not None
    for path, values in network.sweep.columns.items():
        key = f"sweep.{path}"
        if path in network.slices:
            yield Problem(key, "this key has values per slice as well", found=path, expected="one of the two")
            continue
        found = problem_of_values(network, key, path, values)
        if found is not None:
            yield found
    for name, connection in network.connections.items():
        owner = connection.owner
        if owner is not None and owner.learn is not None and _in_common(owner):
            yield Problem(
                "sweep",
                f"connection {name} learns from all slices, so the points of a sweep would learn together",
                found=f'connections.{name}.mode = "{owner.mode}"',
                expected=f'mode = "{owner.mode.removeprefix("extra_")}", in which each slice learns alone',
                hint="or start one run for each value, with -s KEY=VALUE",
            )


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
    if name not in tables or not keys:
        known = [f"{kind}.{name}" for kind in KINDS for name in getattr(network, kind)]
        return Problem(
            key,
            f"values may {vary} for layers, connections and probes",
            found=path,
            expected="KIND.NAME.KEY",
            hint=did_you_mean(f"{kind}.{name}", known),
        )
    table = tables[name]
    if not _is_number(table, keys) or keys[0] == "source":
        numbers = ", ".join(key for key in type(table).model_fields if _is_number(table, [key]))
        return Problem(
            key,
            f"this cannot {vary}",
            found=rest,
            expected=f"a number of the dynamics: {numbers}",
            hint=did_you_mean(keys[0], numbers.split(", ")),
        )
    if kind == "connections" and keys[0] in ("learn", "decorrelate", "init", "normalize"):
        common = (table.owner is None or _in_common(table.owner)) and not over_time
        if common or keys[0] in ("init", "normalize"):
            why = _SHARED if common else "all slices start from the same weights, normalised alike"
            expected = 'a connection of mode "shared"' if common else "a number of the dynamics or of `learn`"
            return Problem(key, f"this cannot {vary}: {why}", expected=expected)
    return _wrong_values(table, keys, key, values, count)


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
                return replace(wrong, key=key, message=f"value {number + 1}: {wrong.message}")
    return None


def _in_common(owner: WeightOwner) -> bool:
    """Return whether the weights belong to all slices."""
    return owner.mode.startswith("extra_")


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
    inner = (
        _as_number(table, keys[0], value)
        if len(keys) == 1
        else _with(getattr(table, keys[0]), keys[1:], value)
    )
    return table.model_copy(update={keys[0]: inner})


def _as_number(table: Any, key: str, value: float) -> float:
    """Return a value as a number of its key's type: seeds are whole."""
    whole = isinstance(getattr(table, key), int) and float(value).is_integer()
    return int(value) if whole else value


def _wrong(table: Any, keys: Sequence[str], value: float) -> Problem | None:
    """Return the problem of a value, None if it is valid."""
    holder = table
    for key in keys[:-1]:
        holder = getattr(holder, key)
    fields = {name: getattr(holder, name) for name in type(holder).model_fields}
    fields[keys[-1]] = _as_number(holder, keys[-1], value)
    try:
        type(holder).model_validate(fields)
    except ValidationError as error:
        return problems_of(error, type(holder), fields)[0]
    return None
