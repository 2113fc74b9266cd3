"""Dead features: those that no recent code uses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petabatch.results import Results
from petabatch.results.use import RECENT, active_features


def dead_features(run: Results) -> Iterator[str]:
    """Yield, for each code that was recorded, how many of its features are dead, as in figures.

    Of a dictionary whose code was not recorded, the use in its latest recorded updates counts, if that was.
    """
    connections = run.params.get("connections", {})
    counted = set()
    names = [name for name in run if not run[name].missing]
    for name in names:
        folder, owner, variable = _parts(name)
        if folder == "layers" and variable == "A" and run[name].sparse:
            active, codes = active_features(run[name])
            if codes:
                counted.add(owner)
                yield f"{owner}: {_dead(active, codes, 'recorded code')}"
    for name in names:
        folder, owner, variable = _parts(name)
        pre = connections.get(owner, {}).get("pre")
        if folder == "connections" and variable == "usage" and len(run[name]) and pre not in counted:
            used = run[name][-RECENT:]
            active = np.asarray(used.reshape(-1, used.shape[-1]).any(axis=0))
            yield f"{owner}: {_dead(active, len(used), 'recorded update')}"


def _parts(name: str) -> tuple[str, str, str]:
    folder, _, rest = name.partition("/")
    owner, _, variable = rest.rpartition("/")
    return folder, owner, variable


def _dead(active: np.ndarray, number: int, what: str) -> str:
    if active.all():
        return f"none of {active.size:,} features"
    when = what if number == 1 else f"{number:,} {what}s"
    return f"{np.count_nonzero(~active):,} of {active.size:,} features: inactive in the last {when}"
