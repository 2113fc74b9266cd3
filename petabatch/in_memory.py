"""Runs in memory: arrays in, arrays out, no files."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from petabatch.arguments import checked, whole_number
from petabatch.engine.stopping import Stop
from petabatch.errors import ArgumentError
from petabatch.one_batch import points_named
from petabatch.params import given
from petabatch.results.in_memory import Recorded, ResultsInMemory
from petabatch.simulator import Saved, Simulator
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network
from petabatch.storage.description import Description


class Result(ResultsInMemory):
    """The result of a run in memory: all that `petabatch.open` gives of a run on disk, and its states.

    It draws with `petabatch.plotting`, and is a dictionary for `petabatch.encode`.
    """

    steps: Mapping[str, np.ndarray]
    """Recorded steps by path, as in the run file (`layers/V1/A`, `probes/energy/total`): int64 `[times]`."""
    recorded: Mapping[str, np.ndarray]
    """Recorded values by path, `[times, ...]`."""
    at: tuple[int, ...]
    """Steps at which `states` were taken."""
    states: Mapping[str, np.ndarray]
    """Every checkpointed array at those steps, by key such as `layers/V1/V` or
    `connections/dictionary/weights`: `[len(at), batch or 1, ...]`; `A` without its history."""
    end: Saved
    """The whole state at the end, from which `in_memory.run(..., start=result.end)` goes on."""

    def __init__(
        self,
        describe: Callable[[], Description],
        recorded: Recorded,
        began: int,
        states: Mapping[int, Mapping[str, np.ndarray]],
        at: tuple[int, ...],
        end: Saved,
    ) -> None:
        super().__init__(describe, recorded, began, end.step)
        self.steps = {path: steps for path, (steps, _) in recorded.items()}
        self.recorded = {path: values for path, (_, values) in recorded.items()}
        self.at, self.end = at, end
        keys = states[at[0]] if at else ()
        self.states = {key: np.stack([states[step][key] for step in at]) for key in keys}

    def __repr__(self) -> str:
        at = f"; states after steps {', '.join(map(str, self.at))}" if self.at else ""
        lines = [f"<petabatch run in memory: {len(self.recorded)} recorded arrays{at}>"]
        lines += [
            f"  {path} [{', '.join(map(str, values.shape))}] {values.dtype}"
            for path, values in self.recorded.items()
        ]
        return "\n".join(lines)


@checked("network")
def run(
    network: Loaded | Network | str | os.PathLike[str],
    at: Sequence[int] = (),
    threads: int | None = None,
    *,
    device: Literal["cpu", "gpu"] | None = None,
    start: Saved | None = None,
    quiet: bool = True,
) -> Result:
    """Run a network from start to end without files.

    Under MPI, each rank runs all slices, unless `[parallel]` splits them: then those that share slices have
    these, whole on each, and all ranks call it alike.

    Parameters
    ----------
    network
        A network built in Python, or a params file, by its path or loaded.
    at
        Steps whose complete state is returned; 0 is the initial state.
    threads
        As for `petabatch.run`.
    device
        The device, in place of `run.device`.
    start
        A state of the network to go on from, such as the `end` of an earlier result: its steps are counted.
    quiet
        Whether no progress is reported.

    Returns
    -------
    Result
        What was recorded, with the methods of `Results`, and the states.

    Raises
    ------
    ParamsError
        If the network is invalid.
    ArgumentError
        If it is no network, or a step of `at` is outside of the run.
    NonFiniteError
        If a number becomes NaN or infinite, in a point of a sweep, too: `petabatch.sweep` yields the others.
    StoppedEarly
        When `run.wall_limit` is reached.

    Examples
    --------
    >>> result = petabatch.in_memory.run("params/natural_images.toml", at=[0, 10])
    >>> result.states["layers/V1/V"].shape[0], result.end.step == result.steps_reached
    (2, True)
    """
    wanted = tuple(whole_number("at", step) for step in at)
    states: dict[int, dict[str, np.ndarray]] = {}
    loaded = Loaded(network) if isinstance(network, Network) else given(network)
    mpi = None if loaded.network.parallel.split else False
    with Simulator(loaded, threads=threads, device=device, mpi=mpi) as sim:
        if start is not None:
            sim.load(start)
        first, last = sim.n_steps, sim.network.run.length
        if missing := sorted(step for step in set(wanted) if not first <= step <= last):
            raise ArgumentError("at", "steps outside of the run", missing, f"{first} to {last}")
        if first >= last:
            raise ArgumentError(
                "start", "this state is that of the end of the run", start, f"a step before {last}"
            )
        sim._live.undo = None  # after an error there is no result
        stop, again = Stop(sim.network.run), "nothing of a run in memory is kept: raise run.wall_limit"
        for step in sorted({*wanted, last}):
            with points_named(sim.network, "petabatch.sweep yields points in memory, those that fail, too"):
                sim._run(step, stop, again, quiet)
            if step in wanted:
                states[step] = _snapshot(sim.save())
        end = sim.save()
        live = sim._live
        return Result(live.describe(sim.times, "done"), live.recorded(), live.began, states, wanted, end)


def _snapshot(saved: Saved) -> dict[str, np.ndarray]:
    """Return the arrays of a state; of the history of activities only that of its step."""
    return {
        key: array[:, saved.step % array.shape[1]] if key.endswith("/A") else array
        for key, array in saved.arrays.items()
    }
