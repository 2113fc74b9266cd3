"""Dead features: those that no recent code uses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import latest_codes

_RECENT = 10
"""Displays, or recorded updates, that count."""
_LIMIT = 1 << 25
"""Bytes of codes that are read at most, before compression: a report must not take long."""


def dead_features(run: Results) -> Iterator[str]:
    """Yield, for each dictionary or code that was recorded, how many of its features are dead."""
    connections = run.params.get("connections", {})
    counted = set()
    names = [name for name in run if not run[name].missing]
    for name in names:
        folder, owner, variable = _parts(name)
        if folder == "connections" and variable == "usage" and len(run[name]):
            used = run[name][-_RECENT:]
            alive = np.asarray(used.reshape(-1, used.shape[-1]).any(axis=0))
            counted.add(connections.get(owner, {}).get("pre"))
            yield f"{owner}: {_dead(alive)} in the last {_times(len(used), 'recorded update')}"
    for name in names:
        folder, owner, variable = _parts(name)
        if folder == "layers" and variable == "A" and run[name].sparse and owner not in counted:
            alive, codes = _active(run[name])
            if codes:
                yield f"{owner}: {_dead(alive)} in the last {_times(codes, 'recorded code')}"


def _parts(name: str) -> tuple[str, str, str]:
    folder, _, rest = name.partition("/")
    owner, _, variable = rest.rpartition("/")
    return folder, owner, variable


def _active(code: Series) -> tuple[np.ndarray, int]:
    """Return which features the latest codes use, and the number of these codes; stop when all are used."""
    alive, codes = np.zeros(code.shape[-1], bool), 0
    for time, number in latest_codes(code, _RECENT, limit=_LIMIT):
        if number == 0 and alive.all():
            break
        values = code[time, number]
        if np.isnan(values).any():
            continue  # the slice failed
        alive |= values.any(axis=(0, 1))
        codes += 1
    return alive, codes


def _dead(alive: np.ndarray) -> str:
    return f"{np.count_nonzero(~alive)} of {alive.size} features inactive"


def _times(number: int, what: str) -> str:
    return what if number == 1 else f"{number} {what}s"
