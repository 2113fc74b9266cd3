"""The page about a run: what it is, how far and how fast, on what, and the condition of its files."""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from petabatch import results
from petabatch.clock import Clock
from petabatch.errors import FormatError, RunDirectoryError, StorageError, printable
from petabatch.report.dead_features import dead_features, silent_units
from petabatch.report.lines import LABEL, field, finished_of, wrapped
from petabatch.report.points import failed_points, last_values, points_table
from petabatch.report.times import rank_times, spent
from petabatch.sizes import size_text
from petabatch.storage.checkpoint import checkpoint_steps
from petabatch.storage.claim import claimed
from petabatch.storage.damaged import naming_damage
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import PARTS, RUN_FILES, lacking
from petabatch.storage.gaps import steps_text
from petabatch.storage.points import names_of, read
from petabatch.storage.verify import file_states
from petabatch.storage.wave import waves_of

_READ_AT_MOST = 1 << 28
"""Bytes that are read to find damaged files, which takes a tenth of a second."""
_LONE = (
    f"the data: {{}} segment{{}} of the folder {PARTS}/ beside run.h5; to copy a run as one file, use "
    "`petabatch merge`"
)


def describe(path: Path, now: datetime | None = None) -> str:
    """Return the page about a run directory, a `run.h5` or a merged file, as text.

    Damaged and missing files are named. Raises RunDirectoryError or StorageError when there is no run.
    """
    directory = _directory(path)
    if directory is None:
        with naming_damage(path), results.open(path) as run:
            lines = [f"{'run file':{LABEL}}{path.absolute()}", *_run(run, None), *_recorded(run)]
            lines += field("size on disk", size_text(path.stat().st_size))
            if missing := len(_missing(run)):
                lines += field("missing", _LONE.format(missing, "s" * (missing > 1)))
        return printable("\n".join(lines))
    lines = [f"{'run directory':{LABEL}}{directory.path}"]
    damaged = [state for state in file_states(directory, _READ_AT_MOST) if state.state == "damaged"]
    bad = {state.checkpoint for state in damaged}
    wrong = [
        state.problem.removeprefix(f"{directory.path}/").splitlines()[0]
        for state in damaged
        if state.name != directory.index  # results.open tells more
    ]
    there = (directory.path / directory.index).exists()
    if not there and any(state.name == directory.index for state in damaged):
        repair = f"`petabatch verify --repair {directory.path}` makes it again"
        problem = f"{directory.index}: this file is missing; {repair}"
        wrong.insert(0, problem)
        lines += field("status", "the index of what was recorded is missing")
        recorded: list[str] = []
    elif not there:
        what = "running" if claimed(directory.path) else "interrupted"
        lines += field("status", f"{what}; {_unjoined(directory) or 'nothing recorded yet'}")
        recorded = []
    else:
        try:
            with naming_damage(directory.run_file), results.open(directory.run_file) as run:
                lines += _run(run, claimed(directory.path), now)
                lines += _unindexed(run, directory)
                recorded = list(_recorded(run))
                known = " ".join(wrong)
                wrong += [f"{name} is missing" for name in _missing(run) if name not in known]
        except (StorageError, FormatError) as error:
            wrong.append(str(error).splitlines()[0])
            recorded = []
    lines += [*_log(directory), *recorded, *_files(directory, bad)]
    for problem in wrong:
        lines += field("damaged", problem)
    return printable("\n".join(lines))


def _unjoined(directory: RunDirectory) -> str:
    """Return how many points of a sweep, or slices of a pool, jobs have computed that are not joined."""
    rows = _rows(directory)
    return (
        f"jobs have computed {rows:,} points or slices; `petabatch join` makes them readable" if rows else ""
    )


def _rows(directory: RunDirectory) -> int:
    """Return how many finished points the files of a sweep have, as far as they can be read."""
    rows = 0
    for name in names_of(directory.path):
        with suppress(StorageError):  # it is told as damaged, or was merged meanwhile
            rows += len(read(directory, name, contents=False).values)
    return rows


def _unindexed(run: results.Results, directory: RunDirectory) -> Iterator[str]:
    """Yield how many points of a sweep that is not finished `run.h5` lacks."""
    points = run.attributes.get("points")
    if points is None or run.status == "done":
        return
    known, rows = points["finished"] + points["failed"], _rows(directory)
    if rows > known:
        what = "slices" if run.params["run"].get("pool") else "points"
        text = f"{rows:,} {what} are finished, {rows - known:,} of them not in run.h5"
        hint = f"`petabatch join {directory.path}` adds them"
        yield from field("points", f"{text}; {hint}")


def ended(path: Path) -> bool:
    """Return whether nothing will change any more, unless the run is resumed."""
    directory = _directory(path)
    return directory is None or not claimed(directory.path)


def _directory(path: Path) -> RunDirectory | None:
    """Return the run directory that a path names; None for a file that stands for itself."""
    if not path.is_file() and (path.name not in RUN_FILES or not lacking(path)):
        return RunDirectory.open(path)
    if path.name not in RUN_FILES:
        return None
    try:
        return RunDirectory.open(path.parent)
    except RunDirectoryError:
        return None


def _run(run: results.Results, running: bool | None, now: datetime | None = None) -> Iterator[str]:
    """Yield what the index tells; `running` is None where that cannot be known."""
    about, params = run.attributes, run.params
    yield from field("title", params["title"] or "-")
    yield from field("status", _status(run, running))
    if run.gaps:
        yield from field("lost", f"{steps_text(run.gaps)}, of which there are no records")
    yield from _times(run, running, now)
    ranks = about["ranks"]
    points, each = about.get("points"), 1 if params["run"].get("pool") else params["run"]["batch"]
    batch = run.batch if points is None else points["all"] * each  # also of points that are not finished
    yield from field("batch", f"{batch} slice{'s' * (batch != 1)}, {_seed(run)}")
    hosts = ", ".join(dict.fromkeys(about["hosts"]))
    yield from field("ranks", f"{ranks} on {hosts}")
    devices = ", ".join(dict.fromkeys(about["devices"]))
    yield from field("device", f"{devices} ({about['processor']})" if "processor" in about else devices)
    yield from field("petabatch", f"{about['petabatch_version']}, commit {about.get('git', 'unknown')}")
    libraries = [" ".join(library) for library in about["libraries"].items()]
    yield from field("libraries", ", ".join([*libraries, *about["blas"]]))
    yield from field("command", about["command"])
    yield from failed_points(run)
    if points is None or points["finished"]:
        yield from last_values(run)
    # After the probes: in the report, what is indented below a table belongs to it.
    yield from points_table(run)
    for dead in dead_features(run):
        yield from field("dead features", dead)
    for silent in silent_units(run):
        yield from field("silent units", silent)


def _seed(run: results.Results) -> str:
    if "seed" in run.coordinates:
        return f"{len(set(run.coordinates['seed'].tolist()))} seeds"
    return f"seed {run.params['run']['seed']}"


def _status(run: results.Results, running: bool | None) -> str:
    settings, reached = run.params["run"], run.steps_reached
    length = settings["steps"] or Clock(settings["display"]).length(settings["displays"])
    what = run.status
    if what == "running" and running is False:
        what = "interrupted"
    if (points := run.attributes.get("points")) is not None:
        kind = "slice" if settings.get("pool") else "point"
        left = points["all"] - points["finished"] - points["failed"]
        more = f", {left:,} to compute" if left and what == "running" else ""
        return f"{what}: {finished_of(points['finished'], points['failed'], points['all'], kind)}{more}"
    far = f"step {reached} of {length}"
    if settings["displays"]:
        far += f", display {Clock(settings['display']).complete(reached)} of {settings['displays']}"
    return f"{what}: {far}"


def _times(run: results.Results, running: bool | None, now: datetime | None) -> Iterator[str]:
    """Yield when the run was made, how long it took, how fast it was, and what the time went into."""
    about, settings, reached = run.attributes, run.params["run"], run.steps_reached
    dates = [("started", about["started"]), ("resumed", about.get("resumed")), ("updated", about["updated"])]
    written = [f"{what} {_date(date)}" for what, date in dates if date]
    if running and run.status == "running":
        since = (now or datetime.now(UTC)) - datetime.fromisoformat(about["updated"])
        written[-1] += f", {_duration(since.total_seconds())} ago"
    yield from field("dates (UTC)", "; ".join(written))
    if "seconds" not in about:  # joined from chunks
        return
    seconds = float(about["seconds"])
    working = seconds - about["times"].get("kernels", 0.0)
    timed = about.get("timed_steps", 0 if run.status == "running" else reached)
    speed = timed * run.batch / working if working > 0 else 0.0
    duration = _duration(seconds)
    if run.status == "running" and speed and "points" not in about:
        length = settings["steps"] or Clock(settings["display"]).length(settings["displays"])
        left = _duration((length - reached) * run.batch / speed)
        duration += f" so far, about {left} left"
    yield from field("duration", duration)
    if speed:
        yield from field("mean speed", f"{speed:,.0f} slice·steps/s without loading kernels")
    times = spent(about)
    whole = sum(times.values())
    if whole:
        shares = (f"{name} {100 * one / whole:.1f} %" for name, one in times.items())
        yield from field("time", ", ".join(shares))
    yield from rank_times(run)


def _recorded(run: results.Results) -> Iterator[str]:
    yield "recorded"
    for name in run:
        series = run[name]
        axes = ", ".join(f"{dim} {length}" for dim, length in zip(series.dims, series.shape, strict=True))
        yield from wrapped(f"  {name:32} ", axes, 35)


def _missing(run: results.Results) -> list[str]:
    """Return the segments that the index names but that are missing."""
    return sorted({f"{PARTS}/{name}" for recorded in run for name in run[recorded].missing})


def _log(directory: RunDirectory) -> Iterator[str]:
    """Yield the last entry of the log, of which indented lines are left out; the index may be older."""
    try:
        with directory.log.open("rb") as file:
            file.seek(max(0, directory.log.stat().st_size - 4096))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        yield from field("damaged", f"{directory.log.name} cannot be read")
        return
    if entries := [line for line in lines if line[:1].strip()]:
        yield from field("log", entries[-1])


def _files(directory: RunDirectory, bad: Collection[int | None]) -> Iterator[str]:
    """Yield sizes on disk, and the checkpoints."""
    sizes: dict[str, int] = {}
    for file in directory.path.rglob("*"):
        try:
            about = file.lstat()
        except OSError:  # a run in progress has removed it meanwhile
            continue
        if stat.S_ISREG(about.st_mode):
            folder = file.relative_to(directory.path).parts[0]
            sizes[folder] = sizes.get(folder, 0) + about.st_size
    largest = sorted(sizes, key=lambda name: -sizes[name])
    parts = ", ".join(f"{name} {size_text(sizes[name])}" for name in largest if sizes[name] >= 1 << 10)
    yield from field("size on disk", f"{size_text(sum(sizes.values()))}: {parts}")
    steps = [f"{step} (damaged)" if step in bad else str(step) for step in checkpoint_steps(directory)]
    waves = len(waves_of(directory.path))
    inside = f"{waves}, for {'waves' if waves > 1 else 'a wave'} in progress" if waves else "none"
    yield from field("checkpoints", f"at steps {', '.join(steps)}" if steps else inside)


def _date(text: str) -> str:
    return text.replace("T", " ").removesuffix("+00:00")


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
