"""Values per slice, `[slices]` and `[sweep]`: the networks of slices that differ in numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from petabatch.errors import ParamsError, Problem
from petabatch.network.numbers import is_plain, problem_of_values, said, with_values
from petabatch.spec.network import Network
from petabatch.spec.sweep import Interval
from petabatch.variable import Coordinate, Stream
from petabatch.weight_mode import for_each_slice, over_slices

_SOME = 1000
"""Different values of a key that are checked before the waves of a sweep begin."""


def check_slices(network: Network, problems: list[Problem]) -> None:
    """Check that each key is a number of the dynamics, with a valid value for each slice or point."""
    for path, values in network.slices.items():
        found = problem_of_values(network, path, path, values, network.run.batch)
        if found is not None:
            problems.append(found)
    if network.sweep is not None:
        problems += _sweep_problems(network)


def own_values(network: Network, number: int) -> dict[str, float]:
    """Return what a slice does not share with all others, by key path."""
    point, within = divmod(number, network.run.batch)
    found = {path: values[within] for path, values in network.slices.items()}
    return found if network.sweep is None else found | network.sweep.point(point)


def sliced(network: Network, number: int) -> Network:
    """Return the network of a slice, in which its values stand; its batch is that of one point."""
    return with_values(network, own_values(network, number), slices={}, sweep=None)


def values_of_images(network: Network, layer: str, number: int) -> tuple[float, ...]:
    """Return what the images that a slice shows in a layer depend on, and that slices differ in."""
    own = f"layers.{layer}.source."
    return tuple(
        value
        for path, value in own_values(network, number).items()
        if path == "run.seed" or path.startswith(own)
    )


def synaptic_paths(network: Network, name: str) -> list[str]:
    """Return the key paths that the synapses of a connection follow from, of those that slices differ in."""
    own, connection = f"connections.{name}.", network.connections[name]
    keys = {
        path: path.removeprefix(own).split(".") for path in own_values(network, 0) if path.startswith(own)
    }
    return [path for path, one in keys.items() if one[0] != "learn" and not connection.plain(one)]


def synaptic_values(network: Network, name: str) -> list[dict[str, float]]:
    """Return the different values that the synapses of a connection follow from, those of slice 0 first."""
    if not (paths := synaptic_paths(network, name)):
        return [{}]
    values = _columns(network)
    rows = np.stack([values[path] for path in paths], axis=1)
    _, first = np.unique(rows, axis=0, return_index=True)
    return [dict(zip(paths, rows[n].tolist(), strict=True)) for n in sorted(first)]


def _columns(network: Network, points: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return the values of all slices by key path; in a sweep, of all points or of those of these numbers."""
    batch, sweep = network.run.batch, network.sweep
    if points is None:
        points = np.arange(1 if sweep is None else sweep.points)
    found = {path: np.tile(values, len(points)) for path, values in network.slices.items()}
    if sweep is not None:
        found |= {path: np.repeat(values, batch) for path, values in sweep.at(points).items()}
    return found


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


def coordinates(
    network: Network, streams: Iterable[Stream], points: np.ndarray | None = None
) -> tuple[Coordinate, ...]:
    """Return what the slices of a batch differ in, under names that can stand beside the streams.

    In a sweep, of all points or of those of these numbers.
    """
    taken = {"batch", "step", "time", "file"} | {n for s in streams for n in (s.leaf, *s.dims)}
    batch, sweep = network.run.batch, network.sweep
    if points is None:
        points = np.arange(1 if sweep is None else sweep.points)
    own, found = _columns(network, points), []
    for path, name in _short_names(list(own), taken).items():
        values = own[path].astype(np.int64) if path == "run.seed" else own[path].astype(float)
        found.append(Coordinate(name, tuple(values.tolist()), path, f"{path} of the slice"))
    if sweep is not None:
        numbers = {
            "point": (np.repeat(points, batch), "point of the sweep"),
            "slice": (np.tile(np.arange(batch), len(points)), "slice of the point"),
        }
        found += [Coordinate(name, tuple(v.tolist()), "", text) for name, (v, text) in numbers.items()]
    return tuple(found)


def coordinate_of_failed(steps: np.ndarray) -> Coordinate:
    """Return the steps at which the points of slices failed."""
    text = "step at which the point failed, -1 if it did not"
    return Coordinate("failed", tuple(steps.tolist()), "", text)


def coordinates_of_slices(
    network: Network, streams: Iterable[Stream], numbers: np.ndarray
) -> tuple[Coordinate, ...]:
    """Return what slices of these numbers differ in, of a batch without a sweep, and their numbers."""
    differing = coordinates(network, streams)
    found = [replace(one, values=tuple(np.asarray(one.values)[numbers].tolist())) for one in differing]
    return (*found, Coordinate("slice", tuple(numbers.tolist()), "", "slice of the batch"))


def _short_names(paths: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """Return the shortest end of each key path that tells it from the others, joined by underscores.

    The table `parameters` of a layer is left out, as it tells nothing.
    """

    def ends_of(path: str) -> list[str]:
        parts = [part for part in path.split(".") if part != "parameters"]
        return ["_".join(parts[-count:]) for count in range(1, len(parts) + 1)]

    found = {}
    for path in paths:
        ends = ends_of(path)
        others = {end for other in paths if other != path for end in ends_of(other)}
        free = [end for end in ends if end not in others and end not in (*taken, "point", "slice")]
        found[path] = free[0] if free else ends[-1]
    return found


def check_some_points(network: Network) -> None:
    """Check a sweep as `check_slices` does, but of very many values the extremes and the first alone.

    The others are checked with the waves that have them. Raises ParamsError.
    """
    problems = list(_sweep_problems(network, _SOME))
    if problems:
        raise ParamsError(problems)


def _first_problem(
    network: Network, key: str, path: str, values: np.ndarray, most: int | None
) -> tuple[int, Problem | None]:
    """Return the first wrong value and what is wrong with it; of more than `most`, some are checked.

    Of plain numbers one is, since all that are finite are valid.
    """
    if is_plain(network, path) and np.isfinite(values).all():
        numbers = np.zeros(1, int)  # the first stands for all
    elif most is not None and len(values) > most:
        numbers = np.array([values.argmin(), values.argmax(), *range(most)])
    else:
        _, numbers = np.unique(values, return_index=True)
    for number in np.unique(numbers).tolist():
        found = problem_of_values(network, key, path, (float(values[number]),))
        if found is not None:
            return number, found
    return 0, None


def _interval_problems(network: Network, key: str, path: str) -> Iterator[Problem]:
    """Yield what is wrong with the bounds of an interval, whatever is drawn between them."""
    assert network.sweep is not None
    interval = network.sweep.values.get(path)
    for name in ("low", "high") if isinstance(interval, Interval) else ():
        found = problem_of_values(network, f"{key}.{name}", path, (getattr(interval, name),))
        if found is not None:
            yield replace(found, message=found.message.removeprefix(said(0)))


def _sweep_problems(network: Network, most: int | None = None) -> Iterator[Problem]:
    """Yield what is wrong with a sweep."""
    assert network.sweep is not None
    for path, values in network.sweep.columns.items():
        key = f"sweep.{path}"
        if path in network.slices:
            yield Problem(key, "this key has values per slice as well", found=path, expected="one of the two")
            continue
        if wrong := list(_interval_problems(network, key, path)):
            yield from wrong
            continue
        number, found = _first_problem(network, key, path, np.asarray(values, float), most)
        if found is not None:
            message = found.message.removeprefix(said(0))
            yield replace(found, message=f"{said(number)}{message}" if message != found.message else message)
    for name, connection in network.connections.items():
        owner = connection.owner
        if owner is not None and owner.learns and over_slices(owner.mode):
            yield Problem(
                "sweep",
                f"connection {name} learns from all slices, so the points of a sweep would learn together",
                found=f'connections.{name}.mode = "{owner.mode}"',
                expected=f'mode = "{for_each_slice(owner.mode)}", in which each slice learns alone',
                hint="or start one run for each value, with -s KEY=VALUE",
            )
