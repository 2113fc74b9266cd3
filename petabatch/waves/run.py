"""Running, resuming, extending and joining sweeps and pools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from petabatch.assembly import assert_same_software, new_directory, reloaded, require_format
from petabatch.engine.gpu.choose import require
from petabatch.engine.stopping import heeding
from petabatch.errors import AlreadyDone, DamagedError, ParamsError, Problem, RunDirectoryError, StorageError
from petabatch.logs import log, shown, to_file
from petabatch.parallel.comm import Comm, Serial
from petabatch.parallel.failure import shared_errors
from petabatch.parallel.launch import connected
from petabatch.params import read
from petabatch.results import open as open_results
from petabatch.spec.load import Loaded, resolved
from petabatch.start_from import from_kept_origin
from petabatch.stop_signals import StopFlag
from petabatch.storage.checkpoint import checkpoint_steps, drop_checkpoints
from petabatch.storage.claim import Claim, claimed
from petabatch.storage.description import Status, recorded_provenance, status_of
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import DESCRIPTION, RESOLVED
from petabatch.storage.inputs import Fingerprint, compare, of_hosts
from petabatch.storage.points import PointsFiles, drop_superseded
from petabatch.storage.verify import repair as repair_files
from petabatch.waves.experiment import Experiment, same_network
from petabatch.waves.finished import Counts, Finished
from petabatch.waves.index import write_index
from petabatch.waves.items import Items
from petabatch.waves.plan import Waves
from petabatch.waves.queue import Chunk
from petabatch.waves.session import WavesSession, points_of, provenance
from petabatch.waves.team import Team


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


def planned(
    given: Callable[[], Loaded], threads: int | None, mpi: bool | None, asked: bool
) -> tuple[Comm, Loaded, Experiment | None]:
    """Return the ranks, the network that is `given`, the same on all of them, and its `experiment`."""
    comm = connected(mpi)
    with shared_errors(comm):
        loaded = given()
        require_format(loaded.network)
        assert_same_software(comm, loaded)
        return comm, loaded, experiment(loaded, comm, threads, asked)


def _team(plan: Experiment, comm: Comm, threads: int | None) -> Team:
    """Return the team of this rank, which can compute the points and has their input; collective."""
    team = Team.of(comm, plan.base, threads, plan.network.parallel.batch)
    plan.refuse_shortage(team)
    plan.check_input()
    return team


def run(
    plan: Experiment,
    comm: Comm,
    out: Path,
    *,
    chunk: Chunk | None = None,
    force: bool = False,
    extend: bool = False,
    threads: int | None = None,
    quiet: bool = False,
) -> int:
    """Compute the points of a sweep that are not finished in `out`; return how many have failed.

    With a `chunk`, its part of them, beside other processes.
    """
    loaded = plan.loaded
    with shared_errors(comm):
        if loaded.network.run.device == "gpu":
            require()
        team = _team(plan, comm, threads)
        files = of_hosts(comm, loaded.network)
    with (
        Claim(comm.rank) as claim,
        heeding(plan.what, comm, quiet) as flag,
    ):
        comm.barrier()  # all ranks heed signals before there is a run directory
        made: RunDirectory | None = None
        if comm.rank == 0:
            there = (extend or chunk is not None) and out.exists() and not force
            if not there:
                try:
                    made = new_directory(loaded, out, force, files, None if chunk else claim)
                except RunDirectoryError:
                    if chunk is None or not RunDirectory(out).in_waves:
                        raise  # else another job was first
            if made is None:
                made = RunDirectory.open(out)
                if chunk is not None:
                    _clean_alone(made)
                claim.take(made.path, shared=chunk is not None)
                _go_on(made, loaded, files, extend and chunk is None)
            elif chunk is not None:
                claim.take(made.path, shared=True)
        directory: RunDirectory = comm.broadcast(made)
        plan = replace(plan, loaded=from_kept_origin(directory, loaded))
        return _compute(directory, plan, team, chunk, False, quiet, flag)


def run_chunk(
    file: Path,
    settings: Sequence[str],
    out: Path,
    chunk: Chunk,
    *,
    threads: int | None = None,
    mpi: bool | None = None,
    quiet: bool = False,
) -> tuple[int, str]:
    """Compute a part of the points of a params file, beside other processes; return how many failed, of what.

    Points that are finished in `out` are not made again. `join` makes their results readable.
    """
    with shown(quiet):
        comm, _, plan = planned(partial(read, file, settings), threads, mpi, asked=True)
        assert plan is not None
        return run(plan, comm, out, chunk=chunk, threads=threads, quiet=quiet), plan.what


def resume(
    directory: RunDirectory,
    loaded: Loaded,
    comm: Comm,
    changed_input: bool,
    retry: bool,
    threads: int | None,
    quiet: bool,
) -> int:
    """Compute the points of a claimed directory that are not finished; return how many have failed.

    Raises AlreadyDone when there are none.
    """
    files = of_hosts(comm, loaded.network)
    if comm.rank == 0:
        compare(directory, files, changed_input)
    with loaded.placing():
        plan = experiment(loaded, comm, threads, asked=True)
    assert plan is not None
    team = _team(plan, comm, threads)
    with heeding(plan.what, comm, quiet) as flag:
        return _compute(directory, plan, team, None, retry, quiet, flag, resumed=True)


def _compute(
    directory: RunDirectory, plan: Experiment, team: Team, chunk: Chunk | None,
    retry: bool, quiet: bool, flag: StopFlag, resumed: bool = False,
) -> int:  # fmt: skip
    comm = team.comm
    if chunk is None and comm.rank == 0:
        _clean(directory)
    session = WavesSession(directory, plan, team, chunk or Chunk(), retry)
    if resumed and not comm.any(len(session.left.numbers) > 0) and status_of(directory) == "done":
        more = "" if plan.network.run.pool else ", --extend of `petabatch run` adds points"
        problem = Problem(
            "", f"all {plan.what}s are finished", hint=f"--retry-failed makes failed ones again{more}"
        )
        raise AlreadyDone(problem.render(str(directory.path)))
    log_file = directory.log if chunk is None else session.log
    with to_file(log_file, comm.rank if chunk is None else team.group.rank):
        session.run(flag, quiet)
        failed: int = sum(comm.broadcast(comm.gather(session.failed)))
        if failed:
            log.warning("%d of %s %ss failed", failed, f"{plan.count:,}", plan.what)
    return failed


def _clean(directory: RunDirectory) -> None:
    """Remove what killed processes have left of files; the directory is claimed by this process alone."""
    if claimed(directory.path):  # else the file system has no locks, and others may be writing
        directory.clean()
        drop_superseded(directory)


def _clean_alone(directory: RunDirectory) -> None:
    """Clean where no other process has claimed the directory, else nothing: jobs may be running."""
    with Claim() as claim, suppress(RunDirectoryError):
        claim.take(directory.path)
        _clean(directory)


def _go_on(directory: RunDirectory, loaded: Loaded, files: Sequence[Fingerprint], extend: bool) -> None:
    """Prepare a directory for further points, which read `files`.

    Raises RunDirectoryError unless they are of its network, InputError unless they have its input.
    """
    if not directory.in_waves:
        raise RunDirectoryError(
            f"{directory.path}: this run is no sweep or pool, and has no points\n"
            "    hint:     choose another directory with --out, or start with --force"
        )
    directory.verify()
    there = reloaded(directory, False, ())
    same_network(directory, there, loaded)
    compare(directory, files)
    if there.network.sweep == loaded.network.sweep:
        return
    if not extend:
        raise RunDirectoryError(
            f"{directory.path}: this directory has another sweep\n"
            "    hint:     `petabatch run --extend` without --chunk makes the points that are new"
        )
    if checkpoint_steps(directory):
        log.warning(
            "the checkpoint at the end of %s is removed: it has the slices of the points before, in their "
            "order, and a sweep that was extended has none",
            directory.path,
        )
    drop_checkpoints(directory)
    directory.write(RESOLVED, resolved(loaded.network))


def join(path: Path, objects: Sequence[object] = ()) -> Counts:
    """Write `run.h5` over the points that jobs have finished; return how many there are.

    Raises RunDirectoryError if the directory is not that of a sweep or a pool.
    """
    directory = RunDirectory.open(path)
    if not directory.in_waves:
        raise RunDirectoryError(f"{directory.path}: this run is no sweep or pool, and has nothing to join")
    _clean_alone(directory)
    return _join(directory, objects, recorded_provenance(directory) or {})


def _join(directory: RunDirectory, objects: Sequence[object], before: Mapping[str, Any]) -> Counts:
    """Write `run.h5` of a run whose provenance was that `before`."""
    directory.verify()
    directory.format.require()
    loaded = reloaded(directory, False, objects)
    comm = Serial()
    plan = experiment(loaded, comm, asked=True)
    assert plan is not None
    files = points_of(PointsFiles(directory), directory, plan)
    finished = Finished(files, plan.points(), plan.base_value)
    counts = finished.counts(plan.what)
    status: Status = "done" if counts.finished + counts.failed == counts.all else "stopped"
    write_index(directory, plan, finished, provenance(directory, loaded, comm, before), status)
    return counts


def repair(directory: RunDirectory) -> list[tuple[str, str]]:
    """Take damaged files of points out of a run, and rebuild `run.h5`; return what was done, and to what.

    A damaged `run.json` is rebuilt as well: from `run.h5`, or, where that is damaged, too, without the times.
    Raises RunDirectoryError where another process, such as a job, runs in the directory.
    """
    with Claim() as claim:
        claim.take(directory.path)
        _clean(directory)
        return _repair(directory)


def _repair(directory: RunDirectory) -> list[tuple[str, str]]:
    done = repair_files(directory)
    try:
        before = recorded_provenance(directory) or {}
    except DamagedError:
        before = {}
        with suppress(StorageError), open_results(directory.path) as run:
            before = run.attributes
        (directory.path / DESCRIPTION).unlink(missing_ok=True)
        done.append(("rebuilt", DESCRIPTION))
    _join(directory, (), before)
    return [*done, ("rebuilt", directory.index)]
