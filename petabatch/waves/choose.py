"""The choice of how a run is made: whole, as the points of a sweep, or by a pool."""

from __future__ import annotations

from petabatch.errors import ParamsError, Problem
from petabatch.parallel.comm import Comm, Serial
from petabatch.spec.load import Loaded
from petabatch.waves.experiment import Experiment
from petabatch.waves.items import Items
from petabatch.waves.plan import Waves


def experiment(
    loaded: Loaded, comm: Comm | None = None, threads: int | None = None, asked: bool = False
) -> Experiment | None:
    """Return how a run is made point by point, None if it is not; collective.

    Where it is `asked` for, raises ParamsError for other runs.
    """
    comm = comm or Serial()
    if loaded.network.run.pool:
        return Items.of(loaded, comm, threads)
    if loaded.network.sweep is not None:
        return Waves.of(loaded, comm, threads)
    if asked:
        problem = Problem("sweep", "this run has no sweep", expected="a table [sweep], or --sweep KEY=VALUES")
        raise loaded.placed(ParamsError([problem]))
    return None
