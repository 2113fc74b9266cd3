"""A network in memory that is run step by step, looked into and changed between steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np

from petabatch.arguments import checked, whole_number
from petabatch.arrays import Channels
from petabatch.assembly import assert_same_software, reloaded
from petabatch.engine.driver import At, Driven, Driver, Hook, always
from petabatch.engine.engine import Engine
from petabatch.engine.images import Instead, log_notes
from petabatch.engine.stopping import Stop, Stops, stopped_early
from petabatch.errors import ArgumentError, PetabatchError, unknown
from petabatch.logs import shown
from petabatch.network.advice import log_advice
from petabatch.parallel.launch import connect
from petabatch.parallel.watchdog import Watch
from petabatch.params import given
from petabatch.progress import Progress
from petabatch.results.in_memory import ResultsInMemory
from petabatch.simulator.callbacks import Callbacks, Calls, callback
from petabatch.simulator.interrupts import Interrupts
from petabatch.simulator.opened import Opened, SteppedNetwork
from petabatch.simulator.parts import Part, named, part, parts
from petabatch.simulator.running import Running
from petabatch.simulator.saved import Saved, read, write
from petabatch.simulator.state_array import images_for
from petabatch.spec.duration import seconds
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network
from petabatch.storage.atomic import available
from petabatch.storage.checkpoint import latest_checkpoint, load_checkpoint
from petabatch.storage.damaged import SIMULATOR
from petabatch.storage.directory import RunDirectory


class Simulator:
    """A network in memory: stepped, read, changed; a context manager that frees its memory.

    Parameters
    ----------
    network
        A network built in Python, a params file loaded by `petabatch.load`, or its path.
    threads
        By default `run.threads`, or the cores that the process may use.
    device
        In place of `run.device`.
    mpi
        Whether ranks share the slices, by default if an MPI launcher started the program; each sees its own.

    Raises
    ------
    ParamsError
        If the network is invalid.
    ArgumentError
        If it is no network.

    Examples
    --------
    >>> with petabatch.Simulator("params/natural_images.toml") as sim:
    ...     sim.step(100)
    ...     code = sim["V1"]["A"]  # [batch, y, x, feature]
    ...     sim["V1"]["threshold"] = 0.2
    ...     sim.step()
    ...     print(sim.n_steps, code.ndim, sim.changes)
    101 4 {'layers.V1.threshold': 100}
    """

    @checked("network")
    def __init__(
        self,
        network: Loaded | Network | str | os.PathLike[str],
        *,
        threads: int | None = None,
        device: Literal["cpu", "gpu"] | None = None,
        mpi: bool | None = None,
    ) -> None:
        loaded = (Loaded(network) if isinstance(network, Network) else given(network)).on(device)
        self._threads, self._comm = threads, connect(mpi)
        assert_same_software(self._comm, loaded)
        self._busy, self._callbacks = False, Callbacks()
        self._opened = Opened(loaded, self._comm, threads)
        self._watch = Watch(self._comm, seconds(loaded.network.run.stuck_after), user=True)
        self._watch.__enter__()
        log_notes(self._engine.readers)
        whole = self._engine.features.group.size == 1  # otherwise this rank has a part of the arrays
        arrays = self._engine.state.arrays if whole else {}
        log_advice(self._engine.features.whole_plan, arrays, files=False)

    @classmethod
    @checked()
    def from_run(
        cls,
        path: str | os.PathLike[str],
        step: int | None = None,
        *,
        threads: int | None = None,
        device: Literal["cpu", "gpu"] | None = None,
        features: int | None = None,
        rows: int | None = None,
        objects: Sequence[object] = (),
    ) -> Self:
        """Return a simulator in the state of a run after `step`, by default that of its newest checkpoint.

        The steps from the checkpoint before `step`, or from the start where there is none, are made again.
        `features` and `rows` are the numbers of ranks over which these are split, where they are to change;
        `objects` are the objects of Python that the run shows, such as a `Dataset`. The run directory is only
        read. Raises RunDirectoryError if there is no run, StorageError if it is damaged.
        """
        directory = RunDirectory.open(Path(path))
        before = None if step is None else whole_number("step", step, 0) + 1
        loaded = reloaded(directory, False, objects).with_parts(features=features, rows=rows)
        head = latest_checkpoint(directory, before)
        if head is None:
            sim = cls(loaded, threads=threads, device=device)
        else:
            run = loaded.network.run.model_copy(update={"start_from": None})
            network = loaded.network.model_copy(update={"run": run})
            sim = cls(replace(loaded, network=network), threads=threads, device=device)
            arrays, meta = load_checkpoint(head, sim.slices.start, sim.slices.stop)
            sim._live.resume(int(meta["step"]), arrays, {})
        if step is not None:
            sim.step(step - sim.n_steps)
        return sim

    @property
    def network(self) -> Network:
        """The network, with its numbers as they are now."""
        return self._opened.network

    @property
    def n_steps(self) -> int:
        """Number of steps made."""
        return self._engine.step

    @property
    def time(self) -> float:
        """Simulated time: `n_steps * run.dt`."""
        return self.network.run.clock.time(self.n_steps)

    @property
    def display(self) -> int:
        """The display that the last step belongs to, from 1; 0 before the first step."""
        return self.network.run.clock.begun(self.n_steps)

    @property
    def slices(self) -> range:
        """The slices of this rank: all, unless MPI ranks share them."""
        return range(self._engine.state.lo, self._engine.state.hi)

    @property
    def method(self) -> str:
        """How the network is computed, and why, as `petabatch check` prints it."""
        return str(self._engine.plan.method)

    @property
    def times(self) -> dict[str, float]:
        """Seconds spent so far by activity, as of runs on disk; those of threads as if all were one."""
        return self._opened.times

    @property
    def engine(self) -> Driven:
        """What a `petabatch.Driver` advances: this network; callbacks are called as by `step`.

        Between the steps of such a loop, everything of a simulator may be used.
        """
        return SteppedNetwork(self._opened, self._advance)

    @property
    def changes(self) -> Mapping[str, int]:
        """What was changed by hand, and after which step for the first time."""
        return dict(self._opened.changes)

    def step(self, n: int = 1) -> None:
        """Make `n` steps, also beyond the length of the run.

        Raises NonFiniteError, InputError or what a callback raises; all slices have then made the same steps.
        """
        self._advance(self.n_steps + whole_number("n", n, 0))

    @checked()
    def run(self, until: int | None = None, *, quiet: bool = False) -> None:
        """Run to step `until`, by default to the end of the network's run, with a progress report.

        Raises as `step` does, and StoppedEarly when this call has taken `run.wall_limit`; the next one goes
        on.
        """
        last = self.network.run.length if until is None else whole_number("until", until, 0)
        if last < self.n_steps:
            expected = f"at least {self.n_steps}, the number of steps made"
            raise ArgumentError("until", "this step has been made already", last, expected)
        self._run(last, Stop(self.network.run), "`run` of the simulator goes on from there", quiet)

    @checked()
    def show(self, layer: str, images: Any, *, always: bool = False, channels: Channels = "last") -> None:
        """Show images in an input layer until the next display begins, or for good with `always`.

        In the middle of a display they replace what is shown at once; between two displays they are shown in
        the next one. `images` are an array of any library `[batch, ny, nx, nf]`, or with `channels="first"`
        `[batch, nf, ny, nx]`, of this rank's slices, or broadcast to that; None shows the images of the
        source again. Raises UnknownName if there is no such input layer, ArgumentError if the images do not
        fit.
        """
        if layer not in self._engine.readers:
            raise unknown("input layer", layer, self._engine.readers)
        if self.network.layers[layer].batch is not None:
            found, expected = "batch = 1", "a layer without `batch`, of which each slice has its own"
            raise ArgumentError("layer", "its image is the same in all slices and steps", found, expected)
        if images is None:
            self._show(layer, None)
            return
        reader, display = self._engine.readers[layer], self.network.run.display
        whole = images_for((len(self.slices), *self._live.image_shape(layer)), images, channels)
        item = reader.layer.shown(self.n_steps + 1, display)
        self._show(layer, Instead(whole, self._engine.state.lo, item, None if always else item))

    @checked()
    def callback(self, function: Callable[[Simulator], Any], every: Any = "display") -> None:
        """Call `function(sim)` at the end of steps: `every="display"`, `every=10` or a list of steps.

        It may read and change the simulator, but not step it. `remove_callback` ends this.
        """
        self._callbacks.all.append(callback(function, every, self.network.run.display))

    @checked()
    def remove_callback(self, function: Callable[[Simulator], Any]) -> None:
        """Call a function no more; raises ArgumentError if it is not called."""
        kept = [one for one in self._callbacks.all if one.function != function]
        if len(kept) == len(self._callbacks.all):
            raise ArgumentError("function", "this is no callback", function)
        self._callbacks.all = kept

    @checked()
    def save(self, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> Saved:
        """Return the whole state, with the numbers of the network and what was changed by hand.

        With `path`, it is also written to this HDF5 file, of all ranks; with `force` it may replace such a
        file. Raises StorageError when the file exists or cannot be written.
        """
        saved = self._opened.save()
        if path is not None:
            with self._live.all_ranks_raise():  # all have seen whether there is a file before it is written
                target = available(path, "state.h5", SIMULATOR, force)
            variables = self._engine.state.variables
            batched = {key for key in saved.arrays if variables[key].per == "slice"}
            with self._live.all_ranks_raise():
                if self._engine.features.writes:
                    write(target, saved, batched, self._engine.comm)
        return saved

    @checked()
    def load(self, saved: Saved | str | os.PathLike[str]) -> None:
        """Go back to a saved state of this network, or to that of a file; later records are forgotten.

        Raises ArgumentError when the state is that of another network, StorageError when the file cannot be
        read or is damaged.
        """
        if isinstance(saved, str | os.PathLike):
            saved = read(Path(saved), self.slices)
        if not isinstance(saved, Saved):
            expected = "what Simulator.save() returns, or the path of its file"
            raise ArgumentError("saved", "this is not a saved state", saved, expected)
        self._opened.load(saved)

    def copy(self) -> Simulator:
        """Return another simulator in the same state, without callbacks and records."""
        other = Simulator(self._opened.given, threads=self._threads, mpi=self._comm.size > 1)
        other.load(self.save())
        return other

    @property
    def results(self) -> ResultsInMemory:
        """What was recorded so far, as `petabatch.open` gives it of a run on disk.

        `sim.results["layers/V1/A"]` is a recorded array; it draws with `petabatch.plotting`.
        """
        live = self._live
        return ResultsInMemory(live.describe(self.times), live.recorded(), live.began, self.n_steps)

    def to_xarray(self) -> Any:
        """Return what was recorded so far as an `xarray.DataTree`; needs the `analysis` extra."""
        return self.results.to_xarray()

    @property
    def recorded(self) -> dict[str, np.ndarray]:
        """Recorded values by path, such as `layers/V1/A` or `probes/energy/total`, `[times, ...]`."""
        return Recorded({path: values for path, (_, values) in self._live.recorded().items()})

    @property
    def recorded_steps(self) -> dict[str, np.ndarray]:
        """The steps of these values, int64 `[times]`."""
        return Recorded({path: steps for path, (steps, _) in self._live.recorded().items()})

    def close(self) -> None:
        """Free the memory and close the input files; a closed simulator cannot be used."""
        if self._busy:
            raise PetabatchError("Simulator.close: a step is being made")
        if self._opened.is_open:
            self._watch.__exit__()
        self._opened.close()
        self._callbacks = Callbacks()

    def __getitem__(self, name: str) -> Part:
        """Return a layer, connection or probe; `layers.V1` where several parts have one name."""
        return part(self, name)

    def __contains__(self, name: object) -> bool:
        """Return whether a layer, connection or probe has this name."""
        return bool(named(self._engine.plan.graph.network, name))

    def _ipython_key_completions_(self) -> list[str]:
        """Return what a notebook completes `sim["` with."""
        return [path.partition(".")[2] for path in parts(self.network)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._opened.is_open:
            return "<petabatch simulator: closed>"
        return f"<petabatch simulator: {self.n_steps} steps made, batch {self.network.batch}>"

    @property
    def _live(self) -> Running:
        return self._opened.running

    @property
    def _engine(self) -> Engine:
        return self._live.engine

    def _show(self, layer: str, images: Instead | None) -> None:
        self._live.show(layer, images)
        self._opened.note(f"layers.{layer}")

    def _run(self, last: int, stop: Stop, again: str, quiet: bool) -> None:
        """Run to step `last`; where it is to `stop` before, say how to go on `again`."""

        def leave(step: int) -> None:
            raise stopped_early(f"at step {step} of {last}", again, self._comm.rank)

        run, stops = self.network.run, Stops(lambda: self._comm.any(stop()), last, leave)
        hooks = [stops] if run.wall_limit is not None else []  # else ranks need not ask each other
        with shown(quiet), Progress(self.n_steps, last, run.display, self.network.batch, quiet) as progress:
            self._advance(last, progress, hooks)

    def _advance(self, until: int, progress: Progress | None = None, hooks: Sequence[Hook] = ()) -> None:
        with self._using(), Interrupts(self._comm) as interrupts:

            def report(step: int) -> None:
                interrupts.answer()
                if progress is not None:
                    progress.update(step, self._latest("total"), self._latest("fraction"))

            def call(function: Callable[[Simulator], Any]) -> None:
                with self._live.all_ranks_raise(), self._watch.off(), interrupts.at_once():
                    function(self)

            own = At(always, report), Calls(self._callbacks, call)
            driver = Driver(SteppedNetwork(self._opened), *own, *hooks)
            with self._watch.on(driver):
                for _ in driver.advance(until):
                    pass

    def _latest(self, quantity: str) -> tuple[str, float] | None:
        """Return a probe and the latest value of its quantity, averaged over the slices of this rank.

        Collective for ranks that share them: what these have adds up.
        """
        latest, group = self._engine.recorder.latest(quantity), self._engine.features.group
        return None if latest is None else (latest[0], float(group.sum_in_order(latest[1]).mean()))

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Refuse that steps are made within a callback, or by two threads at a time."""
        if self._busy:
            raise PetabatchError(
                "Simulator.step: a step is being made\n"
                "    hint:     callbacks cannot make steps, and threads need simulators of their own"
            )
        self._busy = True
        try:
            yield
        finally:
            self._busy = False


class Recorded(dict[str, np.ndarray]):
    """Arrays by path; a path that is not there is an UnknownName, with the paths that are."""

    def __missing__(self, path: object) -> np.ndarray:
        raise unknown("record", path, self)
