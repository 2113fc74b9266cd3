"""Where the time of a run goes: the parts of a lane by a clock around them, the kernels of a step alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from petabatch.bench.lazy_parts import lazy_parts
from petabatch.bench.trial import Trial, run
from petabatch.engine.engine import Engine
from petabatch.engine.steppers.dense import DenseStepper
from petabatch.engine.steppers.lazy import LazyStepper
from petabatch.kernels.cpu import timing
from petabatch.kernels.cpu.layout import Images, packed, scratch, shape

_REPEATS = 7
_PARTS = {
    "run": "all",
    "_show": "input",
    "_steps": "steps",
    "_learn": "learning",
    "record": "probes and output",
}
"""Methods of a lane, and what the time in them goes to."""


class Clock:
    """Adds up processor time of the one thread that uses it, by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}

    def around(self, name: str, target: object, method: str) -> None:
        """Count all time in a method of an object to `name`."""
        inner = getattr(target, method)

        def timed(*arguments: Any) -> None:
            begin = time.thread_time()
            inner(*arguments)
            self.spent[name] = self.spent.get(name, 0.0) + time.thread_time() - begin

        setattr(target, method, timed)


def profile(trial: Trial) -> tuple[dict[str, float], float | None]:
    """Return the share of the time on one thread of each part, and the fraction of active units at the end.

    The steps of a compiled loop are divided further: error image, drive and reconstruction are timed by
    themselves on the state at the end; membrane update and thresholds are what is left. The time of lazy
    steps is divided in the proportion of the parts of one step from that state.
    """
    engine, clock = trial.engine(1), Clock()
    for lane in engine.lanes:
        for method, name in _PARTS.items():
            clock.around(name, lane, method)
    clock.around("update", engine.updates, "make")
    run(engine)
    spent = clock.spent
    whole = spent.pop("all") + spent.get("update", 0.0)
    spent["learning"] = spent.get("learning", 0.0) + spent.pop("update", 0.0)
    steps = spent.pop("steps")
    fused = engine.lanes[0].fused
    if isinstance(fused, LazyStepper) and fused.sleeps:
        parts = lazy_parts(fused)
        found = {name: steps * seconds / sum(parts.values()) for name, seconds in parts.items()}
    else:
        found = {name: seconds * trial.slice_steps for name, seconds in _kernels(trial, engine).items()}
        rest = steps - sum(found.values())
        # What can't be, when a busy machine disturbed the kernels more than the steps, is not shown.
        found = {**found, "membrane update": rest} if found and rest > 0 else {"steps": steps}
    found |= spent
    found["other"] = whole - sum(found.values())
    return {name: seconds / whole for name, seconds in found.items() if seconds != 0}, trial.active(engine)


def _kernels(trial: Trial, engine: Engine) -> dict[str, float]:
    """Return the seconds per slice and step of the kernels that can be run alone."""
    loop, p, lane = trial.loop, trial.patches, engine.lanes[0]
    if loop is None or p is None or not isinstance(lane.fused, DenseStepper):
        return {}
    arrays, step = lane.arrays, engine.step
    s, work = shape(p), scratch(p)
    weights = packed(arrays[f"connections/{loop.dictionary}/weights"], p)

    def activity(name: str) -> Any:
        history = arrays[f"layers/{name}/A"]
        return history[0, step % history.shape[1]]

    rows = (p.y.fine, p.x.fine * p.channels)
    image, recon = activity(loop.image).reshape(rows), activity(loop.recon).reshape(rows).copy()
    images = Images(image, np.float32(1), recon, np.zeros((0, 0), np.float32))
    code = np.zeros((p.positions, s.wide), np.float32)
    code[:, : p.features] = activity(loop.code).reshape(p.positions, p.features)
    jobs: dict[str, Callable[[int], None]] = {
        "residual": lambda n: timing.subtract(n, images, s, work),
        "drive": lambda n: timing.drive(n, weights, s, work),
        "reconstruction": lambda n: timing.reconstruct(n, code.reshape(-1), weights, s, work, recon),
    }
    return {name: _best(job) for name, job in jobs.items()}


def _best(job: Callable[[int], None]) -> float:
    """Return the least time of one repetition, in processor time."""
    job(1)  # compiles
    once = _clock(job, 1)
    times = max(1, int(0.01 / max(once, 1e-7)))
    return min(_clock(job, times) for _ in range(_REPEATS))


def _clock(job: Callable[[int], None], times: int) -> float:
    begin = time.thread_time()
    job(times)
    return (time.thread_time() - begin) / times
