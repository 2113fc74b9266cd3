"""Starting and resuming runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from petabatch.arguments import checked, whole_number
from petabatch.assembly import (
    assembled,
    assert_same_software,
    initialise,
    new_directory,
    opened,
    reloaded,
)
from petabatch.engine.engine import Engine
from petabatch.engine.gpu.choose import require
from petabatch.engine.images import log_notes
from petabatch.engine.stopping import heeding
from petabatch.errors import (
    AlreadyDone,
    ArgumentError,
    InputError,
    InputFileError,
    PetabatchError,
    Problem,
)
from petabatch.logs import shown, to_file
from petabatch.network.advice import log_advice
from petabatch.parallel.comm import Comm
from petabatch.parallel.failure import shared_errors
from petabatch.parallel.launch import connected
from petabatch.params import given
from petabatch.params import plan as plan
from petabatch.params import read as read
from petabatch.results import Results
from petabatch.results import open as open_results
from petabatch.session import RunSession
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network
from petabatch.storage.checkpoint import load_checkpoint
from petabatch.storage.claim import Claim
from petabatch.storage.directory import RunDirectory
from petabatch.storage.inputs import compare, of_hosts
from petabatch.storage.recovery import resume_point
from petabatch.storage.shared import assert_shared
from petabatch.waves.run import planned
from petabatch.waves.run import resume as resume_waves
from petabatch.waves.run import run as run_waves


@checked("network")
def run(
    network: Loaded | Network | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    force: bool = False,
    extend: bool = False,
    threads: int | None = None,
    mpi: bool | None = None,
    quiet: bool = False,
) -> Results:
    """Run a network from step 0 into a new directory, and return its results, opened.

    Nothing is written before the network has been checked and its input opened. A sweep is made point by
    point, as many at once as are held; `run.failed` are the points that failed.

    Parameters
    ----------
    network
        A params file, by its path or loaded, or a network built in Python.
    out
        The new directory.
    force
        Whether it may replace a run.
    extend
        Whether `out` may have points of the same sweep: only those that are new are computed.
    threads
        Number of threads of each rank, by default `run.threads`, or the cores that the process may use.
    mpi
        Whether slices are distributed over MPI ranks, by default if an MPI launcher started the program.
    quiet
        Whether no progress is reported: on standard error, or to the handlers of the logger "petabatch" or
        of the root logger if there are any.

    Returns
    -------
    Results
        The run, as `petabatch.open` returns it.

    Raises
    ------
    ParamsError, InputError
        If the network is invalid, or its input cannot be used.
    RunDirectoryError
        If `out` exists or cannot be written.
    NonFiniteError
        If a number becomes NaN or infinite.
    StoppedEarly
        On a signal, or when `run.wall_limit` is reached; there is a checkpoint to resume from.

    Examples
    --------
    >>> run = petabatch.run("params/natural_images.toml", "runs/first", quiet=True)
    >>> run.status, run["layers/V1/A"].dims
    ('done', ('time', 'batch', 'y', 'x', 'feature'))
    """
    with shown(quiet):
        return _run(partial(given, network), Path(out), force, threads, mpi, quiet, extend)


def run_file(
    file: Path,
    settings: Sequence[str],
    out: Path,
    *,
    force: bool = False,
    extend: bool = False,
    threads: int | None = None,
    mpi: bool | None = None,
    quiet: bool = False,
) -> Results:
    """Run a params file with keys set as on the command line, such as `run.displays=6`; see `run`."""

    def loaded() -> Loaded:
        if "run.device=gpu" in settings:
            require()  # before what cannot run on one is found
        return read(file, settings)

    with shown(quiet):
        return _run(loaded, out, force, threads, mpi, quiet, extend)


@checked()
def resume(
    path: str | os.PathLike[str],
    *,
    threads: int | None = None,
    mpi: bool | None = None,
    quiet: bool = False,
    device: Literal["cpu", "gpu"] | None = None,
    features: int | None = None,
    rows: int | None = None,
    changed_input: bool = False,
    retry_failed: bool = False,
    objects: Sequence[object] = (),
) -> Results:
    """Resume a run from its latest complete checkpoint, on any number of ranks.

    Parameters
    ----------
    path
        The run directory.
    threads, mpi, quiet
        As for `run`.
    device, features, rows
        The device, and the numbers of ranks over which features or rows are split, where they are to change.
    changed_input
        Whether the run is resumed even if its input files have changed.
    retry_failed
        Whether points of a sweep, or slices of a pool, that failed are made again.
    objects
        The objects of Python that it shows, such as a `Dataset`, which are not among its files.

    Returns
    -------
    Results
        The run, as `petabatch.open` returns it.

    Raises
    ------
    AlreadyDone
        If the run has reached its end.
    InputError
        If input files have changed, without `changed_input`.
    StoppedEarly
        When it is stopped again.

    Examples
    --------
    >>> petabatch.resume("runs/natural_images", quiet=True)
    Traceback (most recent call last):
    ...
    petabatch.errors.AlreadyDone: ...: this run is already done: it has reached step ...
    """
    for name, count in (("features", features), ("rows", rows)):
        if count is not None:
            whole_number(name, count, 1)
    with shown(quiet):
        comm = connected(mpi)
        directory: RunDirectory = comm.broadcast(RunDirectory.open(Path(path)) if comm.rank == 0 else None)
        with Claim(comm.rank) as claim, ExitStack() as stack:
            if comm.rank == 0:
                claim.take(directory.path)
            assert_shared(comm, directory.path)
            if comm.rank > 0:
                claim.take(directory.path)
            with to_file(directory.log, comm.rank):
                if comm.rank == 0:
                    directory.verify()
                comm.barrier()
                with shared_errors(comm):
                    with _refusing():
                        loaded = reloaded(directory, changed_input, objects)
                        loaded = loaded.with_parts(features=features, rows=rows).on(device)
                        directory.format.require()
                    assert_same_software(comm, loaded)
                    if directory.in_waves:
                        with _inputs_in_place():
                            resume_waves(directory, loaded, comm, changed_input, retry_failed, threads, quiet)
                        return open_results(directory.path)
                    if retry_failed:
                        expected = "a sweep or a pool"
                        raise ArgumentError("retry_failed", "this run has no points", str(path), expected)
                    with _refusing(), _inputs_in_place():
                        loaded, assembly = assembled(loaded, comm, threads)
                        engine, evaluation = stack.enter_context(opened(loaded, assembly))
                files = of_hosts(comm, loaded.network)
                if comm.rank == 0:
                    compare(directory, files, changed_input)
                head = _resume(directory, loaded, engine, comm)
                flag = stack.enter_context(heeding("run", comm, quiet))
                session = RunSession(directory, loaded, engine, comm, claim, evaluation)
                session.go_back()
                if head is None:
                    session.checkpoint()
                session.run(quiet, flag)
            return open_results(directory.path)  # signals are still heeded: they find the run done


def _run(
    read: Callable[[], Loaded],
    out: Path,
    force: bool,
    threads: int | None,
    mpi: bool | None,
    quiet: bool,
    extend: bool,
) -> Results:
    comm, loaded, plan = planned(read, threads, mpi, asked=extend)
    if plan is not None:
        run_waves(plan, comm, out, force=force, extend=extend, threads=threads, quiet=quiet)
        return open_results(out)
    with Claim(comm.rank) as claim, ExitStack() as stack:
        with shared_errors(comm):
            loaded, assembly = assembled(loaded, comm, threads)
            engine, evaluation = stack.enter_context(opened(loaded, assembly))
            initialise(engine, loaded)
            assert_shared(comm, out.absolute().parent)
            files = of_hosts(comm, loaded.network)
        flag = stack.enter_context(heeding("run", comm, quiet))
        comm.barrier()  # all ranks heed signals before there is a run directory
        made = new_directory(loaded, out, force, files, claim) if comm.rank == 0 else None
        directory: RunDirectory = comm.broadcast(made)
        if comm.rank > 0:
            claim.take(directory.path)
        with to_file(directory.log, comm.rank):
            if comm.rank == 0:
                log_notes(engine.readers)
                whole = not loaded.network.parallel.split  # otherwise this rank has a part of the arrays
                log_advice(engine.features.whole_plan, engine.state.arrays if whole else {})
            session = RunSession(directory, loaded, engine, comm, claim, evaluation)
            session.checkpoint()
            session.run(quiet, flag)
        return open_results(directory.path)  # signals are still heeded: they find the run done


def _resume(directory: RunDirectory, loaded: Loaded, engine: Engine, comm: Comm) -> Path | None:
    """Set the state of a run to that of its latest checkpoint, and return that, or to that at its start.

    Raises AlreadyDone.
    """
    head: Path | None = comm.broadcast(resume_point(directory) if comm.rank == 0 else None)
    if head is None:
        initialise(engine, loaded)
    else:
        arrays, meta = load_checkpoint(head, engine.state.lo, engine.state.hi)
        engine.resume(meta["step"], engine.features.part(arrays))
    if engine.step >= engine.plan.length:
        if comm.rank == 0:
            directory.clean()
        hint = f"to continue it, run its params with more `displays` and -s run.start_from={directory.path}"
        done = f"this run is already done: it has reached step {engine.step}"
        problem = Problem("", done, hint=hint)
        raise AlreadyDone(problem.render(str(directory.path)))
    return head


@contextmanager
def _refusing() -> Iterator[None]:
    """Mark errors of what a run is asked to go on with, such as ranks; files that are missing are its own."""
    try:
        yield
    except PetabatchError as error:
        error.refused = not isinstance(error, InputError)
        raise


@contextmanager
def _inputs_in_place() -> Iterator[None]:
    """Say of input files that a resumed run does not find what can be done."""
    note = "\n    note:     a resumed run needs its input files where they were: put or link them there"
    try:
        yield
    except InputFileError as error:
        problems = [replace(problem, message=f"{problem.message}{note}") for problem in error.problems]
        raise InputFileError(problems, error.file) from None
