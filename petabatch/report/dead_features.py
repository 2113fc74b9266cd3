"""Dead features, which no recent code uses, and silent units, which have not spiked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from petabatch.results import Results
from petabatch.results.events import ActivityOfEvents
from petabatch.results.series import Series
from petabatch.results.use import RECENT, active_features

_SPIKING = ("poisson", "spike_times", "conductance_lif")
"""Types of layers that always spike; those of results are read without the classes of layers."""


def dead_features(run: Results) -> Iterator[str]:
    """Yield, for each code that was recorded, how many of its features are dead, as in figures.

    Of a dictionary whose code was not recorded, the use in its latest recorded updates counts, if that was.
    Layers that spike have no codes: see `silent_units`.
    """
    connections = run.params.get("connections", {})
    counted = set()
    names = [name for name in run if not run[name].missing]
    for name in names:
        folder, owner, variable = _parts(name)
        if folder == "layers" and variable == "A" and run[name].sparse and not of_events(run[name]):
            active, codes = active_features(run[name])
            if codes and not _spiking(run.params["layers"][owner]):
                counted.add(owner)
                yield f"{owner}: {_dead(active, codes, 'recorded code')}"
    for name in names:
        folder, owner, variable = _parts(name)
        pre = connections.get(owner, {}).get("pre")
        if folder == "connections" and variable == "usage" and len(run[name]) and pre not in counted:
            used = run[name][-RECENT:]
            active = np.asarray(used.reshape(-1, used.shape[-1]).any(axis=0))
            yield f"{owner}: {_dead(active, len(used), 'recorded update')}"


def silent_units(run: Results) -> Iterator[str]:
    """Yield, for each layer whose spikes were recorded as events, how many of its units are silent."""
    for series in (run[name] for name in run if not run[name].missing):
        if of_events(series):
            silent = series.silent()
            what = f"without a spike in {len(series):,} recorded steps" + " of all slices" * (run.batch > 1)
            yield f"{_parts(series.name)[1]}: {silent.sum():,} of {silent.size:,} units: {what}"


def _spiking(layer: Mapping[str, Any]) -> bool:
    """Return whether a layer spikes, as its description tells: silent units are no dead features."""
    if layer["type"] == "neurons":
        return layer.get("spike") is not None
    return bool(layer["type"] in _SPIKING or (layer["type"] == "retina" and layer.get("spikes", True)))


def of_events(series: Series) -> TypeGuard[ActivityOfEvents]:
    """Return whether an activity is made of spikes that were recorded as events."""
    return isinstance(series, ActivityOfEvents)


def _parts(name: str) -> tuple[str, str, str]:
    folder, _, rest = name.partition("/")
    owner, _, variable = rest.rpartition("/")
    return folder, owner, variable


def _dead(active: np.ndarray, number: int, what: str) -> str:
    if active.all():
        return f"none of {active.size:,} features"
    when = what if number == 1 else f"{number:,} {what}s"
    return f"{np.count_nonzero(~active):,} of {active.size:,} features: inactive in the last {when}"
