"""The choice of how a run is made: whole, as waves of points, or by a pool."""

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

    A sweep is if it says so or does not fit. Where it is `asked` for, raises ParamsError for other runs.
    """
    network, comm = loaded.network, comm or Serial()
    if network.run.pool:
        return Items.of(loaded, comm, threads)
    if network.sweep is None and asked:
        problem = Problem("sweep", "this run has no sweep", expected="a table [sweep], or --sweep KEY=VALUES")
        raise loaded.placed(ParamsError([problem]))
    if network.sweep is None:
        return None
    try:
        plan = Waves.of(loaded)
    except ParamsError:
        if asked or network.sweep.wave is not None:
            raise
        return None  # the whole network is checked, with all its problems
    fits: bool = comm.broadcast(plan.fits(threads) if comm.rank == 0 else None)
    if not asked and network.sweep.wave is None and fits:
        return None
    _refuse_shares(loaded)
    return plan


def _refuse_shares(loaded: Loaded) -> None:
    """Raise ParamsError where ranks share the batch: each takes points when it is free."""
    if loaded.network.parallel.batch is not None:
        problem = Problem(
            "parallel.batch",
            "ranks take the points of a sweep in waves when they are free: they have no shares of the batch",
            found=str(loaded.network.parallel.batch),
            hint="leave it out: waves run on any number of ranks",
        )
        raise loaded.placed(ParamsError([problem]))
