"""A run from its params file to its directory: engine, files, progress, signals."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from petabatch import catalog  # noqa: F401  (makes every built-in type known)
from petabatch.engine.engine import Engine
from petabatch.engine.gpu import choose
from petabatch.engine.split import Split
from petabatch.errors import ParamsError, RunDirectoryError, StoppedEarly
from petabatch.logs import log, silence, to_file
from petabatch.network.graph import build
from petabatch.network.plan import Plan, schedule
from petabatch.origin import set_out
from petabatch.parallel.agree import agree_on, fingerprint
from petabatch.parallel.comm import Comm
from petabatch.parallel.grid import grid
from petabatch.parallel.launch import connect
from petabatch.parallel.watchdog import watched
from petabatch.progress import Progress
from petabatch.results import open as open_results
from petabatch.signals import StopFlag, watch
from petabatch.spec.duration import seconds
from petabatch.spec.load import Loaded, PartlyWrong, load, resolved
from petabatch.storage.checkpoint import latest_checkpoint, load_checkpoint, save_checkpoint
from petabatch.storage.directory import RunDirectory
from petabatch.storage.index import Status, drop_after, write_index
from petabatch.storage.lock import lock
from petabatch.storage.provenance import blas_libraries, collect, library_versions
from petabatch.storage.segment import write_segment
from petabatch.version import __version__


def read(file: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Load a params file; raises ParamsError with every problem in it, of tables and of wiring."""
    try:
        return load(file, overrides)
    except PartlyWrong as error:
        try:
            if error.sound is not None:
                build(error.sound)
        except ParamsError as wiring:
            raise error.joined(wiring.problems) from None
        raise


def plan(loaded: Loaded) -> Plan:
    """Check the network of a params file and derive its plan; errors carry file and line."""
    try:
        return schedule(build(loaded.network))
    except ParamsError as error:
        raise loaded.error(error.problems) from None


def run(
    loaded: Loaded,
    out: Path,
    *,
    force: bool = False,
    threads: int | None = None,
    mpi: bool | None = None,
    quiet: bool = False,
) -> None:
    """Run a params file from step 0 into the new directory `out`.

    Nothing is made on disk before the network is checked and its input opened. Raises StoppedEarly, with a
    checkpoint to resume from, when a signal asks to stop.
    """
    comm = _connect(mpi)
    _compare(comm, loaded)
    engine = _engine(loaded, comm, threads)
    _begin(engine, loaded)
    directory = None
    if comm.rank == 0:
        suffix = Path(loaded.file).suffix if loaded.file.endswith((".toml", ".py")) else ".toml"
        directory = RunDirectory.create(out, loaded.text, suffix, force, resolved(loaded.network))
    directory = comm.broadcast(directory)
    with lock(directory, comm.rank):
        session = _Session(directory, loaded, engine, comm)
        session.checkpoint()
        session.go(quiet)


def resume(
    path: Path,
    *,
    threads: int | None = None,
    mpi: bool | None = None,
    quiet: bool = False,
    device: Literal["cpu", "gpu"] | None = None,
    features: int | None = None,
) -> None:
    """Continue the run in directory `path` from its newest complete checkpoint, on any number of ranks.

    `device` overrides the one that the run was begun on, `features` over how many ranks features were split.

    Raises RunDirectoryError when the run is already done, StoppedEarly when it is stopped again.
    """
    comm = _connect(mpi)
    directory = RunDirectory.open(path)
    with lock(directory, comm.rank):
        _resume(directory, _reload(directory, device, features), comm, threads, quiet)


def _resume(directory: RunDirectory, loaded: Loaded, comm: Comm, threads: int | None, quiet: bool) -> None:
    _compare(comm, loaded)
    engine = _engine(loaded, comm, threads)
    head = comm.broadcast(latest_checkpoint(directory) if comm.rank == 0 else None)
    if head is None:
        _begin(engine, loaded)
    else:
        arrays, meta = load_checkpoint(head, engine.state.lo, engine.state.hi)
        engine.resume(meta["step"], arrays if engine.split is None else engine.split.part(arrays))
    if engine.step >= engine.plan.length:
        raise RunDirectoryError(
            f"{directory.path}: this run is done: all {engine.plan.length} steps are made"
        )
    session = _Session(directory, loaded, engine, comm)
    if comm.rank == 0:
        directory.clean()
        session.index("running", until=engine.step)
        drop_after(directory, engine.step)
    comm.barrier()
    if head is None:
        session.checkpoint()
    session.go(quiet)


def _compare(comm: Comm, loaded: Loaded) -> None:
    """Raise ResourceError when ranks would not compute the same bits: by other libraries, CPUs or params."""
    if comm.size > 1:
        params = json.dumps(resolved(loaded.network), sort_keys=True)
        own = {"petabatch": __version__, "BLAS": ", ".join(blas_libraries()), "params": fingerprint(params)}
        agree_on(comm, {**library_versions(), **own})


def _engine(loaded: Loaded, comm: Comm, threads: int | None) -> Engine:
    """Return the engine of this rank, for its slices and its part of the features; collective."""
    whole, wanted = plan(loaded), loaded.network.parallel
    place = grid(comm, wanted.batch, wanted.features)
    split = Split(whole, place.features) if wanted.features > 1 else None
    return Engine(whole, place.batch, threads, choose(loaded.network.run, comm), split)


def _begin(engine: Engine, loaded: Loaded) -> None:
    """Set the state a run begins with: that of step 0, or of a checkpoint of another run."""
    origin = loaded.network.run.start_from
    try:
        if origin is None:
            engine.start()
        else:
            set_out(engine, Path(origin))
    except ParamsError as error:
        raise loaded.error(error.problems) from None


def _connect(mpi: bool | None) -> Comm:
    comm = connect(mpi)
    if comm.rank > 0:
        silence()
    return comm


def _reload(directory: RunDirectory, device: Literal["cpu", "gpu"] | None, features: int | None) -> Loaded:
    """Return the network of an existing run: as resolved when it began, or its params file if in Python."""
    if directory.params.suffix == ".py":
        loaded = load(directory.params)
    else:
        loaded = Loaded.from_json(directory.resolved.read_text(encoding="utf-8"), str(directory.resolved))
    if features is not None:
        parallel = loaded.network.parallel.model_copy(update={"batch": None, "features": features})
        loaded = replace(loaded, network=loaded.network.model_copy(update={"parallel": parallel}))
    run = loaded.network.run
    if device is None or device == run.device:
        return loaded
    kernel = run.kernel if run.kernel == "array" else "auto"  # others belong to the device
    changed = run.model_copy(update={"device": device, "kernel": kernel})
    return replace(loaded, network=loaded.network.model_copy(update={"run": changed}))


def _started(directory: RunDirectory) -> str | None:
    """Return when a run that is resumed was first started."""
    if not directory.run_file.exists():
        return None
    with open_results(directory.path) as before:
        return str(before.attributes["started"])


class _Session:
    """An engine with its files."""

    def __init__(self, directory: RunDirectory, loaded: Loaded, engine: Engine, comm: Comm) -> None:
        self.directory, self.loaded, self.engine, self.comm = directory, loaded, engine, comm
        whole = engine.plan if engine.split is None else engine.split.whole_plan
        self.streams = [recording.stream for recording in whole.recordings]
        self.flushed = engine.step - 1 if engine.step == 0 else engine.step
        self.started = time.monotonic()
        self.provenance = collect(
            params_text=directory.params.read_text(encoding="utf-8"),
            params=resolved(loaded.network),
            seed=loaded.network.run.seed,
            hosts=comm.hosts,
            ranks=comm.size,
            devices=comm.gather(engine.device) or (),
            started=_started(directory),
        )

    def go(self, quiet: bool) -> None:
        """Run to the end, or until a signal asks to stop."""
        engine, network = self.engine, self.loaded.network
        first = engine.step
        with (
            to_file(self.directory.log, self.comm.rank),
            watch() as flag,
            watched(self.comm, lambda: engine.progress, seconds(network.run.stuck_after)),
            Progress(
                first, engine.plan.length, network.run.display, network.run.batch, quiet or self.comm.rank > 0
            ) as progress,
        ):
            log.debug(
                "rank %d of %d on %s, process %d, slices %d to %d",
                self.comm.rank,
                self.comm.size,
                self.comm.hosts[self.comm.rank],
                os.getpid(),
                engine.state.lo,
                engine.state.hi - 1,
            )
            log.info("%s in %s", f"resumed at step {first}" if first else "started", self.directory.path)
            for step in engine.run():
                progress.update(step, self._latest("total"), self._latest("fraction"))
                self._meet(step, flag)
            self._finish("done")
            log.info("done: %s", self.directory.run_file)

    def checkpoint(self) -> None:
        """Save the whole state at the present step."""
        engine, state = self.engine, self.engine.state
        engine.updates.settle()
        engine.collect()
        arrays = state.saved()
        if engine.split is not None:
            arrays = engine.split.whole(arrays)
            if engine.split.group.rank > 0:
                return
        save_checkpoint(
            self.directory,
            engine.step,
            arrays,
            {key for key in state.saved() if state.variables[key].per == "slice"},
            {"step": engine.step},
            lo=state.lo,
            hi=state.hi,
            batch=self.loaded.network.run.batch,
            rank=engine.comm.rank,
            gather=engine.comm.gather,
            keep=self.loaded.network.checkpoint.keep,
        )

    def index(self, status: Status, until: int | None = None) -> None:
        """Rewrite run.h5; rank 0 alone calls this."""
        write_index(
            self.directory, self.streams, self.provenance, self.loaded.network.run.batch, status, until
        )

    def _meet(self, step: int, flag: StopFlag) -> None:
        """Do what falls due at a sync event."""
        plan = self.engine.plan
        last = step == plan.length
        stop = 0 if last else self.comm.any(flag.received or self._out_of_time())
        save = bool(plan.checkpoint and step % plan.checkpoint == 0)
        if stop:
            self._finish("stopped")
            raise StoppedEarly(
                f"stopped at step {step} of {plan.length}\n"
                f"    hint:     petabatch resume {self.directory.path}",
                self.comm.rank,
            )
        if not last and (save or step % plan.flush == 0):
            self._flush("running")
            if save:
                self.checkpoint()

    def _out_of_time(self) -> bool:
        limit = self.loaded.network.run.wall_limit
        return limit is not None and time.monotonic() - self.started > seconds(limit)

    def _finish(self, status: Status) -> None:
        self._flush(status)
        self.checkpoint()

    def _flush(self, status: Status) -> None:
        """Put what was recorded on disk: segments of all ranks, then the index over them."""
        engine, state = self.engine, self.engine.state
        rank, split = engine.comm.rank, engine.split
        records = [r for r in engine.recorder.take(engine.step) if r.stream.batched or rank == 0]
        if split is not None:
            records = split.records(records)
        first = self.flushed + 1
        if first <= engine.step and (split is None or split.group.rank == 0):
            write_segment(self.directory, records, rank, first, engine.step, state.lo, state.hi)
        self.flushed = engine.step
        engine.flushed()
        self.comm.barrier()
        if self.comm.rank == 0:
            self.index(status)

    def _latest(self, quantity: str) -> float | None:
        """Return the newest recorded value of a probe's quantity, the mean over all slices; collective."""
        mine, state = self.engine.recorder.latest(quantity), self.engine.state
        slices = state.hi - state.lo
        parts = self.comm.gather(None if mine is None else mine * slices)
        if mine is None or parts is None:
            return mine
        return float(sum(parts)) / self.loaded.network.run.batch
