"""Lead of the report: in a few sentences, what a network is and what it found."""

from __future__ import annotations

from collections.abc import Iterator, Sized

import numpy as np

from petabatch.clock import Clock
from petabatch.errors import PetabatchError
from petabatch.plotting.activity import over_time, read_units, spikes
from petabatch.plotting.figures import plain
from petabatch.plotting.patches import read_dictionary
from petabatch.plotting.select import code_layer, percent, recorded
from petabatch.plotting.words import in_figures, per_second, quantity, spaced, time_axis
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import use_of

_MOST = 6
"""Quantities of probes that are told."""


def lead(run: Results) -> list[str]:
    """Return sentences about a run: its network, how far it came, and its results."""
    return [*_network(run), *_points(run), *_features(run), *_spikes(run), *_probes(run)]


def _network(run: Results) -> Iterator[str]:
    params = run.params
    layers, connections = params.get("layers", {}), params.get("connections", {})
    dynamic = [
        f"{name} ({table['type']}, {' × '.join(map(str, table['shape']))})"
        for name, table in layers.items()
        if table["type"] not in ("input", "constant", "linear")
    ]
    learns = [name for name, table in connections.items() if table.get("learn")]
    text = f"A network of {_count(layers, 'layer')} and {_count(connections, 'connection')}"
    text += f" with the dynamics of {', '.join(dynamic[:4])}" if dynamic else ""
    text += f"; {' and '.join(learns)} learned" if learns else "; nothing learned" if connections else ""
    yield f"{text}."
    display, reached = run.display, run.steps_reached
    shown = display and display > 1 and reached >= 2 * display
    time = f"{reached:,} steps"
    if shown and display:
        time = f"{Clock(display).complete(reached):,} displays of {display:,} steps"
    state = {"done": "", "stopped": ", then stopped", "running": ", so far"}.get(run.status, "")
    yield f"{_count(range(run.batch), 'slice')} over {time}{state}."


def _count(things: Sized, name: str) -> str:
    return f"{len(things):,} {name}{'' if len(things) == 1 else 's'}"


def _points(run: Results) -> Iterator[str]:
    values = run.differing
    if values:
        ranges = [
            f"{spaced(name)} ({len(np.unique(column)):,} values, "
            f"{plain(column.min(), 4)} to {plain(column.max(), 4)})"
            for name, column in values.items()
        ]
        yield f"Slices differ in {', '.join(ranges)}."


def _features(run: Results) -> Iterator[str]:
    for name in recorded(run, "connections"):
        try:
            read = read_dictionary(run, name)
            use = use_of(code_layer(run, read.code))
        except PetabatchError:
            continue
        count, height, width, _ = read.weights.shape
        dead = int(np.count_nonzero(use == 0))
        yield (
            f"{name} has {count:,} features of {height} × {width}, {dead or 'none'} of them dead; "
            f"{percent(float(use.mean()))} of the units of {read.code} are active."
        )


def _spikes(run: Results) -> Iterator[str]:
    try:
        spiking = [series for series in over_time(run) if spikes(series)]
    except PetabatchError:
        return
    for series in spiking:
        units = read_units(series, 0)
        rate = float(np.nanmean(units.values)) / max(1.0, float(np.median(np.diff(series.steps))))
        time = time_axis(run, every=1)
        silent = np.count_nonzero(np.nansum(units.values, axis=0) == 0)
        often = f"{rate * time.hertz:.3g}"
        often = f"at {often} Hz" if time.unit == "Hz" else f"{often} times {time.unit}"
        yield (
            f"A unit of {units.layer} spikes {often} in slice 0; "
            f"{silent or 'none'} of the {units.of:,} are silent."
        )


def _probes(run: Results) -> Iterator[str]:
    """Yield the first and the last value of energies, fractions, rates and PSNR, as means over slices."""
    ends = ("/total", "/fraction", "/rate", "/cv", "/psnr", "/relative_gap")
    names = [name for end in ends for name in run if name.startswith("probes/") and name.endswith(end)]
    for name in names[:_MOST]:
        series = run[name]
        if not len(series):
            continue
        whole, _, unit = quantity(run, name, names).removesuffix(")").partition(" (")
        begin, when = _begin(run, series)
        means = [_mean(run, name, series[place]) for place in (begin, -1)]
        first, last = (percent(each / 100) if unit == "%" else f"{each:.4g} {unit}".strip() for each in means)
        yield (
            f"{whole}: {last} at the end, {first} {when}." if begin < len(series) - 1 else f"{whole}: {last}."
        )


def _begin(run: Results, series: Series) -> tuple[int, str]:
    """Return the record with which the last one can be compared: the end of the first display."""
    if run.display and series.steps[-1] > run.display:
        first = int(np.searchsorted(series.steps, run.display, side="right")) - 1
        if first >= 0:
            return first, "at that of the first display"
    return 0, "at first"


def _mean(run: Results, name: str, values: np.ndarray) -> float:
    """Return the mean over the slices that did not fail, of a PSNR over those that have one."""
    found = in_figures(name, np.asarray(values), per_second(run, name))
    there = np.isfinite(found) if name.endswith("/psnr") else ~np.isnan(found)
    return float((found[there] if there.any() else found).mean())
