"""Random networks that learn and are recorded, run to their end on threads or ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from petabatch.engine.engine import Engine
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Comm, Serial
from petabatch.spec.network import Network
from support.networks import collect, flush
from support.programs import random_run
from support.rank_threads import on_threads

Arrays = Mapping[str, np.ndarray]


def finish(
    network: Network, comm: Comm | None = None, threads: int = 1, start: tuple[int, Arrays] | None = None
) -> tuple[Engine, dict[str, np.ndarray]]:
    """Run to the end, from a saved state if one is given; return the engine and what it recorded."""
    engine = Engine(schedule(build(network)), comm or Serial(), threads)
    if start is None:
        engine.start()
    else:
        lo, hi = engine.state.lo, engine.state.hi
        variables, (step, arrays) = engine.state.variables, start
        mine = {
            key: array[lo:hi] if variables[key].per == "slice" else array for key, array in arrays.items()
        }
        engine.resume(step, mine)
    return engine, collect(engine)


def states(engine: Engine) -> dict[str, np.ndarray]:
    """Return what a checkpoint holds."""
    return {key: array.copy() for key, array in engine.state.saved().items()}


def saved_at(network: Network, step: int) -> dict[str, np.ndarray]:
    """Return what a checkpoint at the end of `step` holds."""
    engine = Engine(schedule(build(network)), Serial(), 1)
    engine.start()
    for reached in engine.run():
        list(flush(engine, reached))
        if reached == step:
            engine.collect()
            return states(engine)
    raise AssertionError(f"there is no sync event at step {step}")


def on_ranks(network: Network, ranks: int, start: tuple[int, Arrays] | None = None) -> tuple[Arrays, Arrays]:
    """Return state and recordings of a run on so many ranks, which are threads."""
    runs = on_threads(ranks, lambda comm: finish(network, comm, 1, start))
    variables = runs[0][0].state.variables

    def shared(key: str) -> bool:
        return key in variables and variables[key].per != "slice"

    state = _joined([states(engine) for engine, _ in runs], 0, shared)
    return state, _joined([recorded for _, recorded in runs], 1, shared)


def _joined(parts: Sequence[Arrays], axis: int, shared: Callable[[str], bool]) -> dict[str, Any]:
    """Return what ranks have together: their slices one after the other, or one copy of what all share."""
    found = {}
    for key in parts[0]:
        if shared(key):
            assert len({part[key].tobytes() for part in parts}) == 1, f"{key} differs between ranks"
            found[key] = parts[0][key]
        else:
            found[key] = np.concatenate([part[key] for part in parts], axis)
    return found


def digests(seeds: Sequence[int], comm: Comm) -> list[str]:
    """Return on rank 0 what identifies every array of these runs, slice by slice."""
    lines = []
    for seed in seeds:
        engine, _ = finish(random_run(seed), comm)
        for key, array in sorted(states(engine).items()):
            parts = comm.gather([hashlib.sha256(one.tobytes()).hexdigest() for one in array])
            if parts is not None:
                per_slice = engine.state.variables[key].per == "slice"
                lines.append(f"{seed} {key} {list(chain(*parts)) if per_slice else parts[0]}")
    return lines
