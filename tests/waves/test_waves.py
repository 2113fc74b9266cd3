"""Sweeps in waves of any size: the points have the bits of their own runs, whatever interrupts them."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from petabatch import results, simulation
from petabatch.engine import stopping
from petabatch.errors import (
    AlreadyDone,
    DamagedError,
    InputError,
    ParamsError,
    RunDirectoryError,
    StoppedEarly,
    StorageError,
)
from petabatch.report.information import describe
from petabatch.report.integrity import verify
from petabatch.storage import points, points_writer, provenance
from petabatch.storage.checkpoint import load_checkpoint
from petabatch.storage.directory import RunDirectory
from petabatch.storage.merge import merge
from petabatch.storage.point_rows import Rows
from petabatch.storage.prune import prune
from petabatch.waves import checkpoints, plan, progress, session
from petabatch.waves import run as waves_run
from petabatch.waves.finished import Points
from petabatch.waves.progress import PointsProgress
from petabatch.waves.queue import Chunk
from petabatch.waves.run import join, repair, run_chunk
from support.commands import Command, alone, write_small

FROZEN = ("connections.dictionary.learn.every='never'", "run.displays=2")
KEY = "layers.V1.threshold"
SWEEP = f"sweep.{KEY}=[0.2, 0.25, 0.3, 0.35, 0.4]"


def swept(file: Path, name: str, *settings: str, **keys: object) -> results.Results:
    """Run a sweep into a folder beside its params file."""
    loaded = simulation.read(file, [*FROZEN, *settings])
    return simulation.run(loaded, file.parent / name, mpi=False, quiet=True, **keys)  # type: ignore[arg-type]


def recorded(run: results.Results) -> dict[str, np.ndarray]:
    """Return all that a run recorded, and close it."""
    with run:
        found = {name: run[name][...] for name in run}
        return found | {f"steps of {name}": run[name].steps for name in found} | run.coordinates


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Compare what two runs recorded, to the bit."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape), name
        assert found[name].tobytes() == values.tobytes(), name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """What five points in one wave record."""
    return recorded(swept(write_small(tmp_path_factory.mktemp("batch")), "whole", SWEEP))


def test_a_run_has_started_when_its_process_began_and_not_when_its_index_was_written(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(hours=1)

    run_waves = session.WavesSession.run

    def later(self: session.WavesSession, *arguments: Any) -> None:
        monkeypatch.setattr(provenance, "datetime", Later)
        run_waves(self, *arguments)

    monkeypatch.setattr(session.WavesSession, "run", later)
    with swept(small, "waves", SWEEP, "sweep.wave=2") as run:
        ago = datetime.now(UTC) - datetime.fromisoformat(run.attributes["started"])
        assert timedelta(0) <= ago < timedelta(minutes=5)


@pytest.mark.parametrize("wave", [1, 2, 7])
def test_waves_of_any_size_record_the_same(small: Path, whole: dict[str, np.ndarray], wave: int) -> None:
    run = swept(small, "waves", SWEEP, f"sweep.wave={wave}")
    assert run.status == "done"
    assert run.attributes["points"] == {"all": 5, "finished": 5, "failed": 0, "why": {}}
    assert_same(recorded(run), whole)
    assert len(list((small.parent / "waves").glob("points/*"))) == 1
    merged = merge(small.parent / "waves", small.parent / "one.h5")
    assert_same(recorded(results.open(merged)), whole)


@pytest.mark.parametrize("ranks", [0, pytest.param(2, marks=pytest.mark.mpi)])
def test_a_sweep_that_fits_is_one_wave_on_each_rank_and_ends_with_a_checkpoint(
    small: Path, petabatch: Command, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    out = small.parent / "whole"
    done = petabatch(
        "run", small, "--out", out, "-q", *(f"-s{text}" for text in (*FROZEN, SWEEP)), ranks=ranks
    )
    assert done.returncode == 0, done.stderr
    assert f"5 points to compute, in {ranks or 1} wave{'s' * (ranks > 1)}\n" in (out / "log.txt").read_text()
    found, _ = load_checkpoint(out / "checkpoints" / "step_000000020.h5", 0, 15)
    for point, value in ((0, 0.2), (4, 0.4)):
        own = alone(small, f"own{point}", *FROZEN, f"{KEY}={value}") / "checkpoints" / "step_000000020.h5"
        expected, _ = load_checkpoint(own, 0, 3)
        for key in ("layers/V1/V", "layers/recon/A"):
            assert found[key][3 * point : 3 * point + 3].tobytes() == expected[key].tobytes()
    more = f"sweep.{KEY}=[0.2, 0.5]"
    swept(small, "whole", more, extend=True).close()
    assert not list((out / "checkpoints").iterdir()), "it was that of other points"


def test_ranks_that_are_to_share_a_batch_are_those_that_take_points(small: Path, petabatch: Command) -> None:
    given = [f"-s{text}" for text in (*FROZEN, SWEEP, "parallel.batch=2")]
    done = petabatch("run", small, "--out", "one", "-q", *given)
    assert "expected: 2 for the batch" in done.stderr
    assert not (small.parent / "one").exists()
    done = petabatch("run", small, "--out", "two", "-q", *given, ranks=2)
    assert done.returncode == 0, done.stderr


def test_a_long_wave_shows_how_far_it_is(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[float]()
    monkeypatch.setattr(PointsProgress, "reached", lambda progress, points: seen.append(points))
    swept(small, "waves", SWEEP, "output.flush=5").close()
    assert 1.25 in seen
    assert seen[-1] == 0


def test_the_progress_of_points_that_are_made_together_is_that_of_their_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = list[tuple[int, str]]()
    bar = SimpleNamespace(show=lambda place, head, text: shown.append((place, head)), stop=lambda: None)
    monkeypatch.setattr(progress, "bar", lambda first, last: bar)
    with PointsProgress(0, 3, 0, "point", False) as points:
        points.reached(0.75)
        points.reached(0.0)
    assert shown == [(75, "point 0 of 3, 25% of the steps"), (0, "point 0 of 3")]


def test_drawn_points_are_runs(small: Path) -> None:
    drawn = (
        "sweep.draws=6",
        "sweep.draw='sobol'",
        f"sweep.{KEY}={{low=0.1, high=0.6}}",
        "sweep.run.seed=[3, 4]",
    )
    run = swept(small, "waves", *drawn, "sweep.wave=5", "connections.dictionary.mode='shared'")
    for point in (0, 4, 11):
        column = {name: values[3 * point] for name, values in run.coordinates.items()}
        own = (
            f"{KEY}={float(column['threshold'])!r}",
            f"run.seed={column['seed']}",
            "connections.dictionary.mode='shared'",
        )
        mine = recorded(results.open(alone(small, f"alone_{point}", *FROZEN, *own)))
        for path in run:
            assert np.array_equal(run[path][:, 3 * point : 3 * point + 3], mine[path]), path


def test_weights_in_common_are_drawn_by_the_seed_of_their_point(small: Path) -> None:
    run = swept(small, "waves", "sweep.run.seed=[5, 6]", "sweep.wave=8")
    for point, seed in enumerate((5, 6)):
        own = recorded(results.open(alone(small, f"alone_{seed}", *FROZEN, f"run.seed={seed}")))
        assert np.array_equal(run["layers/V1/A"][:, 3 * point : 3 * point + 3], own["layers/V1/A"])
    assert not np.array_equal(run["layers/V1/A"][:, :3], run["layers/V1/A"][:, 3:])


def test_a_sweep_that_does_not_fit_is_made_in_waves(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("petabatch.waves.plan.Waves._fitting", lambda *_: 2)
    run = swept(small, "waves", SWEEP)
    assert points.names_of(small.parent / "waves")
    assert run.attributes["points"]["finished"] == 5


class Stop(Exception):
    """The process ends here."""


def dying(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let the process end after this many waves, as by a kill: each wave is committed."""
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    made = plan.waves
    count = 0

    def counted(*arguments: object) -> object:
        nonlocal count
        count += 1
        if count > after:
            raise Stop
        return made(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "waves", counted)


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_killed_run_is_resumed_with_what_is_left(
    small: Path, whole: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    with monkeypatch.context() as patched:
        dying(patched, after)
        with pytest.raises(Stop):
            swept(small, "waves", SWEEP, "sweep.wave=2")
    if after:  # while it grows, it can be read
        with results.open(small.parent / "waves") as run:
            assert run.status == "running"
            assert 6 <= run.batch <= 6 * after
    computed = counting(monkeypatch)
    run = simulation.resume(small.parent / "waves", mpi=False, quiet=True)
    assert sum(map(len, computed)) == 5 - 2 * after
    assert_same(recorded(run), whole)
    with pytest.raises(AlreadyDone):
        simulation.resume(small.parent / "waves", mpi=False, quiet=True)


def counting(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Return a list that receives the numbers of the points that are computed from now on."""
    found, made = [], plan.waves

    def counted(loaded: object, points: Points, *others: object) -> object:
        found.append(points.numbers)  # type: ignore[attr-defined]
        return made(loaded, points, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "waves", counted)
    return found


def test_a_commit_that_was_not_ended_is_made_again(
    small: Path, whole: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    swept(small, "waves", SWEEP, "sweep.wave=2")
    out = small.parent / "waves"
    *_, last = points.names_of(out)
    path = out / "points" / str(last)
    path.rename(path.with_name(f".{last}.tmp"))
    (out / "run.h5").unlink()
    with simulation.resume(out, mpi=False, quiet=True) as run:
        assert_same(recorded(run), whole)


@pytest.mark.parametrize("left", [0, 1, 3])
def test_many_commits_are_merged_and_a_kill_meanwhile_repeats_no_point(
    small: Path,
    whole: dict[str, np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    left: int,
) -> None:
    """Of files that were merged, the process may not have removed the first `left`, or any."""
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    monkeypatch.setattr(points_writer, "_FAN", 2)
    kept: dict[Path, bytes] = {}
    unlink = Path.unlink

    def removing(path: Path, missing_ok: bool = False) -> None:
        if path.parent.name == "points" and len(kept) < left:
            kept[path] = path.read_bytes()
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", removing)
        swept(small, "waves", SWEEP, "sweep.wave=1").close()
    out = small.parent / "waves"
    assert [str(name)[9:] for name in points.names_of(out)] == ["000000-000003.h5", "000004.h5"]
    for path, content in kept.items():
        path.write_bytes(content)
    files = points.PointsFiles(RunDirectory.open(out)).read()
    assert sum(len(one.values) for one in files) == 5
    assert join(out).finished == 5
    assert_same(recorded(results.open(out)), whole)


def test_points_of_a_file_that_is_merged_while_it_is_read_are_found(
    small: Path, whole: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another rank, or a job, merges its files between the names and what the points recorded."""
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    monkeypatch.setattr(points_writer, "_FAN", 4)
    swept(small, "waves", SWEEP, "sweep.wave=1").close()
    out = small.parent / "waves"
    merged, last = points.names_of(out)
    monkeypatch.setattr(points_writer, "_FAN", 100)
    simulation.run(simulation.read(small, [*FROZEN, SWEEP, "sweep.wave=1"]), out, force=True, mpi=False)
    directory = RunDirectory.open(out)
    few, layout = points.names_of(out), points.PointsFiles(directory).read()[0].layout
    read = points.PointsFiles.read

    def merging(files: points.PointsFiles) -> list[points.PointsFile]:
        found = read(files)
        writer = points_writer.PointsWriter(directory, few[-1], layout)
        writer._written = dict.fromkeys(few[:4], 1)
        writer._merge(few[:4])
        return found

    with monkeypatch.context() as patched:
        patched.setattr(points.PointsFiles, "read", merging)
        assert join(out).finished == 5
    assert [str(name)[9:] for name in points.names_of(out)] == [str(merged)[9:], str(last)[9:]]
    assert_same(recorded(results.open(out)), whole)


def test_points_of_the_same_values_have_the_same_records(small: Path) -> None:
    """As many of them as a file has points are not all of its points."""
    swept(small, "waves", f"sweep.{KEY}=[0.2, 0.3]", "sweep.wave=2").close()
    with swept(small, "waves", f"sweep.{KEY}=[0.2, 0.2]", "sweep.wave=2", extend=True) as run:
        first, second = np.split(run["layers/V1/A"][...], 2, axis=1)
        assert np.array_equal(first, second)


def test_ten_thousand_files_of_points_are_listed_at_once(tmp_path: Path) -> None:
    (tmp_path / "points").mkdir()
    names = [points.Name(chunk, 1000, 1, first, first) for chunk in range(1, 1001) for first in range(10)]
    for name in (*names, replace(names[0], last=8)):
        (tmp_path / "points" / str(name)).touch()
    began = time.process_time()
    assert points.names_of(tmp_path) == [replace(names[0], last=8), *names[9:]]
    assert time.process_time() - began < 5


def test_what_is_deleted_of_a_sweep_in_waves_is_noticed(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    swept(small, "waves", SWEEP, "sweep.wave=2").close()
    out = small.parent / "waves"
    assert verify(out, False)[1]
    last = out / "points" / str(points.names_of(out)[-1])
    for one in (last, out / "run.json", out / "run.h5"):
        content = one.read_bytes()
        one.unlink()
        text, is_whole = verify(out, False)
        assert not is_whole
        assert f"{one}: this file is missing" in text
        one.write_bytes(content)
    last.unlink()
    repair(RunDirectory.open(out))
    assert verify(out, False)[1]
    assert join(out).finished == 4


def test_two_processes_with_one_name_do_not_replace_each_others_points(small: Path) -> None:
    """Jobs of a chunk that begin at the same time, since one was started twice."""
    swept(small, "waves", SWEEP, "sweep.wave=5").close()
    directory = RunDirectory.open(small.parent / "waves")
    (name,), (file,) = points.names_of(directory.path), points.PointsFiles(directory).read()
    before = file.path.read_bytes()
    writer = points_writer.PointsWriter(directory, name, file.layout)
    with pytest.raises(StorageError, match="File exists"):
        writer.commit(Rows.of(file.layout, np.zeros((1, 1))))
    assert file.path.read_bytes() == before


def test_what_jobs_have_made_is_described_where_a_file_is_damaged(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    swept(small, "waves", SWEEP, "sweep.wave=2").close()
    out = small.parent / "waves"
    for name in ("run.json", "run.h5"):  # as before `join`
        (out / name).unlink()
    path = out / "points" / str(points.names_of(out)[0])
    os.truncate(path, path.stat().st_size - 10)
    page = describe(out)
    assert "jobs have computed 3 points" in page
    assert f"points/{path.name}: this file is damaged" in page


@pytest.mark.parametrize(("content", "index"), [(None, True), (b"{}", True), (b"{}", False)])
def test_a_lost_description_of_a_sweep_in_waves_is_rebuilt(
    small: Path, whole: dict[str, np.ndarray], content: bytes | None, index: bool
) -> None:
    """Without both it and the index, it is a sweep whose points are not joined yet."""
    with swept(small, "waves", SWEEP, "sweep.wave=2") as run:
        started = run.attributes["started"]
    out = small.parent / "waves"
    (out / "run.json").unlink()
    if content is not None:
        (out / "run.json").write_bytes(content)
    if not index:
        (out / "run.h5").unlink()
    lines = verify(out, False)[0].splitlines()
    at = next(n for n, line in enumerate(lines) if str(out / "run.json") in line)
    assert "can be made from the other files: petabatch verify --repair" in lines[at + 1]
    assert ("rebuilt", "run.json") in repair(RunDirectory.open(out))
    assert verify(out, False)[1]
    with results.open(out) as run:
        assert not index or run.attributes["started"] == started
        assert_same(recorded(run), whole)


def test_a_sweep_in_waves_is_pruned_of_nothing(small: Path) -> None:
    swept(small, "waves", SWEEP, "sweep.wave=2").close()
    assert prune(small.parent / "waves") == 0


def test_a_file_of_points_under_another_name_is_damaged(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    swept(small, "waves", SWEEP, "sweep.wave=2").close()
    out = small.parent / "waves"
    path = out / "points" / str(points.names_of(out)[0])
    path.rename(path.with_name(path.name.replace("000000", "000009")))
    with pytest.raises(DamagedError, match="its name was"):
        points.PointsFiles(RunDirectory.open(out)).read()


@pytest.mark.parametrize(("before", "freed"), [(0, False), (2, False), (2, True)])
def test_a_full_disk_is_told_as_such_and_leaves_points_that_go_on(
    small: Path, whole: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch, before: int, freed: bool
) -> None:
    """The disk is full when the commit after `before` others is written, and later, unless it is `freed`."""
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    written, write = set[str](), os.pwrite

    def full(descriptor: int, content: Any, place: int) -> int:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if "/points/" in name and len(written | {name}) > before:
            first = name not in written
            written.add(name)
            if first or not freed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif "/points/" in name:
            written.add(name)
        return write(descriptor, content, place)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(StorageError, match="cannot be written: No space left on device"):
            swept(small, "waves", SWEEP, "sweep.wave=1")
    out = small.parent / "waves"
    assert sum(len(one.values) for one in points.PointsFiles(RunDirectory.open(out)).read()) == before + freed
    assert_same(recorded(simulation.resume(out, mpi=False, quiet=True)), whole)


@pytest.mark.parametrize("place", [30, 0.4, 0.8])
def test_a_damaged_file_of_points_is_refused_and_repaired(
    small: Path,
    whole: dict[str, np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    petabatch: Command,
    place: float,
) -> None:
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    swept(small, "waves", SWEEP, "sweep.wave=1")
    out = small.parent / "waves"
    path = out / "points" / str(points.names_of(out)[2])
    text = bytearray(path.read_bytes())
    text[int(place if place > 1 else place * len(text))] ^= 4
    path.write_bytes(text)
    with pytest.raises(DamagedError, match="verify --repair"):
        simulation.resume(out, mpi=False, quiet=True)
    assert petabatch("verify", out).returncode == 1
    repaired = petabatch("verify", "--repair", out)
    assert f"points/{path.name}" in repaired.stdout, repaired.stderr
    verified = petabatch("verify", out)
    assert verified.returncode == 0
    lost = f"{path}.lost\n                   `petabatch resume` makes its points again"
    assert lost in verified.stdout
    run = simulation.resume(out, mpi=False, quiet=True)
    assert_same(recorded(run), whole)
    assert "lost" not in verify(out, False)[0]  # any more


def test_an_extended_sweep_computes_what_is_new(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept(small, "waves", f"sweep.{KEY}=[0.3, 0.2]", "sweep.wave=2")
    more = (f"sweep.{KEY}=[0.2, 0.25, 0.3]", "sweep.layers.V1.tau=[10.0, 20.0]", "sweep.wave=2")
    with pytest.raises(RunDirectoryError, match="already exists"):
        swept(small, "waves", *more)
    computed = counting(monkeypatch)
    run = swept(small, "waves", *more, extend=True)
    # tau is 10 in the params file, so that the points of the first sweep are among those of the second
    assert np.concatenate(computed).tolist() == [1, 2, 3, 5]
    assert_same(recorded(run), recorded(swept(small, "whole", *more[:2])))


def test_points_of_a_key_that_is_no_longer_swept_are_those_with_its_own_value(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept(small, "waves", f"sweep.{KEY}=[0.2]", "sweep.layers.V1.tau=[20.0, 10.0, 30.0]", "sweep.wave=2")
    computed = counting(monkeypatch)
    run = swept(small, "waves", f"sweep.{KEY}=[0.2, 0.3]", "sweep.wave=2", extend=True)
    assert np.concatenate(computed).tolist() == [1]
    assert_same(recorded(run), recorded(swept(small, "whole", f"sweep.{KEY}=[0.2, 0.3]")))


def test_a_sweep_whose_points_are_extended_keeps_no_state_of_the_points_before(
    small: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They may be the same in another order: a run that starts from it would take those of other points."""
    swept(small, "waves", f"sweep.{KEY}=[0.2, 0.3]").close()
    assert list((small.parent / "waves" / "checkpoints").iterdir())
    with caplog.at_level(logging.WARNING):
        swept(small, "waves", f"sweep.{KEY}=[0.3, 0.2]", extend=True).close()
    assert "the checkpoint at the end of" in caplog.text
    assert not list((small.parent / "waves" / "checkpoints").iterdir())
    with pytest.raises(InputError, match="none are added by --extend"):
        swept(
            small,
            "more",
            f"run.start_from={small.parent / 'waves'}",
            "run.displays=3",
            f"sweep.{KEY}=[0.3, 0.2]",
        )


def test_a_sweep_that_is_not_extended_for_its_input_has_changed_stays_as_it_was(small: Path) -> None:
    swept(small, "waves", f"sweep.{KEY}=[0.2, 0.3]").close()
    out, images = small.parent / "waves", small.parent / "images.npy"
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    np.save(images, np.load(images)[::-1])
    with pytest.raises(
        InputError, match=r"input files have changed(.|\n)*choose another directory with --out"
    ):
        swept(small, "waves", f"sweep.{KEY}=[0.2, 0.3, 0.4]", extend=True)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("waves", [(), ("sweep.wave=1",)])
def test_it_is_said_that_several_waves_end_without_a_checkpoint(small: Path, waves: Sequence[str]) -> None:
    swept(small, "waves", f"sweep.{KEY}=[0.2, 0.3]", *waves).close()
    out = small.parent / "waves"
    said, kept = (
        "no checkpoint is kept at the end" in (out / "log.txt").read_text(),
        (out / "checkpoints").iterdir(),
    )
    assert (said, any(kept)) == (len(waves) > 0, len(waves) == 0)


def test_the_page_of_a_sweep_counts_points_in_its_first_wave(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages, reached = list[str](), PointsProgress.reached

    def seen(progress: PointsProgress, points: float) -> None:
        pages.append(" ".join(describe(small.parent / "waves").split()))
        reached(progress, points)

    monkeypatch.setattr(PointsProgress, "reached", seen)
    swept(small, "waves", SWEEP, "output.flush=5").close()
    assert "status running: 0 of 5 points finished, 5 to compute" in pages[0]
    assert "batch 15 slices" in pages[0]


@pytest.mark.parametrize("key", [KEY, "run.seed"])
def test_coordinates_have_their_type_before_there_are_points(
    small: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    values = {KEY: "[0.2, 0.3]", "run.seed": "[1, 2]"}[key]
    with swept(small, "whole", f"sweep.{key}={values}") as run:
        expected = {name: values.dtype for name, values in run.coordinates.items()}
    monkeypatch.setattr(stopping.Stop, "__call__", lambda self: True)
    with pytest.raises(StoppedEarly, match="with 0 of 2 points finished"):
        swept(small, "waves", f"sweep.{key}={values}")
    with results.open(small.parent / "waves") as run:
        assert {name: values.dtype for name, values in run.coordinates.items()} == expected
    assert "batch 6 slices" in " ".join(describe(small.parent / "waves").split())


def test_all_points_start_from_one_checkpoint_of_a_run_that_goes_on(small: Path) -> None:
    first = alone(small, "first", *FROZEN, "run.displays=1")
    settings = (f"run.start_from={first}", "run.displays=4")
    swept(small, "waves", *settings, f"sweep.{KEY}=[0.2, 0.3]").close()
    shutil.rmtree(first)
    alone(small, "first", *FROZEN, "run.displays=2")
    with pytest.raises(
        RunDirectoryError, match=r"start_from = .*_000000020\.h5, in the directory .*_000000010\.h5"
    ):
        swept(small, "waves", *settings, f"sweep.{KEY}=[0.2, 0.3, 0.4]", extend=True)


@pytest.mark.parametrize("verb", ["resume", "chunk", "extend"])
def test_points_start_from_a_checkpoint_that_its_run_has_removed(
    small: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    first = alone(small, "first", *FROZEN, "run.displays=1")
    settings, points = (f"run.start_from={first}", "run.displays=4"), [0.2, 0.3]
    more = f"sweep.{KEY}={[*points, 0.4]}"
    expected = recorded(
        swept(small, "whole", *settings, more if verb == "extend" else f"sweep.{KEY}={points}")
    )
    given = [*FROZEN, *settings, f"sweep.{KEY}={points}", "sweep.wave=1"]
    out = small.parent / "waves"
    made = plan.waves

    def pruned(*arguments: Any) -> Any:
        yield from made(*arguments)
        shutil.rmtree(first, ignore_errors=True)  # while the others are still to be made
        if verb == "resume":
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(plan, "waves", pruned)
    if verb == "chunk":
        assert run_chunk(small, given, out, Chunk(1, 2), mpi=False, quiet=True) == (0, "point")
        given[len(FROZEN)] = f"run.start_from={out / 'origin/checkpoints/step_000000010.h5'}"
        assert run_chunk(small, given, out, Chunk(2, 2), mpi=False, quiet=True) == (0, "point")
        join(out)
    elif verb == "resume":
        with pytest.raises(StoppedEarly):
            swept(small, "waves", *given)
        monkeypatch.setattr(plan, "waves", made)
        simulation.resume(out, mpi=False, quiet=True).close()
    else:
        swept(small, "waves", *given).close()
        alone(small, "first", *FROZEN, "run.displays=2")
        with pytest.raises(RunDirectoryError) as error:
            swept(small, "waves", *settings, more, extend=True)
        (kept,) = re.findall(r"-s (run.start_from=\S+),", str(error.value))
        swept(small, "waves", kept, settings[1], more, extend=True).close()
    assert_same(recorded(results.open(out)), expected)
    assert verify(out, False)[1]
    swept(small, "waves", *FROZEN, SWEEP, force=True).close()


def test_it_is_said_that_points_beside_finished_ones_end_without_a_checkpoint(small: Path) -> None:
    swept(small, "waves", f"sweep.{KEY}=[0.2, 0.3]").close()
    log, said = small.parent / "waves" / "log.txt", "no checkpoint is kept at the end"
    assert said not in log.read_text()
    swept(small, "waves", f"sweep.{KEY}=[0.2, 0.3, 0.4]", extend=True).close()
    assert said in log.read_text()


@pytest.mark.parametrize("origin", ["", "origin/checkpoints/step_000000010.h5"])
def test_a_sweep_that_starts_from_the_run_that_it_replaces_has_its_checkpoint(
    small: Path, origin: str
) -> None:
    first = alone(small, "first", *FROZEN, "run.displays=1")
    settings = ("run.displays=4", f"sweep.{KEY}=[0.2, 0.3]")
    expected = recorded(swept(small, "whole", f"run.start_from={first}", *settings))
    out = small.parent / "waves"
    shutil.copytree(small.parent / "whole" if origin else first, out)
    assert_same(
        recorded(swept(small, "waves", f"run.start_from={out / origin}", *settings, force=True)), expected
    )


def test_a_sweep_whose_checkpoint_is_gone_replaces_no_run(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run has removed it, with those after it, since the sweep was planned."""
    first = alone(small, "first", *FROZEN, "run.displays=1")
    settings = (f"run.start_from={first}", "run.displays=4", f"sweep.{KEY}=[0.2, 0.3]")
    alone(small, "waves", *FROZEN)
    before = {path: path.read_bytes() for path in (small.parent / "waves").rglob("*") if path.is_file()}
    of_hosts = waves_run.of_hosts

    def pruned(*arguments: Any) -> Any:
        found = of_hosts(*arguments)
        for path in (first / "checkpoints").glob("*rank*"):
            path.unlink()
        return found

    monkeypatch.setattr(waves_run, "of_hosts", pruned)
    with pytest.raises(StorageError, match=r"step_000000010_rank_.* cannot be read"):
        swept(small, "waves", *settings, force=True)
    assert {
        path: path.read_bytes() for path in (small.parent / "waves").rglob("*") if path.is_file()
    } == before


@pytest.mark.parametrize("part", [False, True])
def test_a_damaged_copy_of_the_checkpoint_that_points_start_from_is_noticed(small: Path, part: bool) -> None:
    first = alone(small, "first", *FROZEN, "run.displays=1")
    swept(small, "waves", f"run.start_from={first}", "run.displays=4", f"sweep.{KEY}=[0.2, 0.3]").close()
    out = small.parent / "waves"
    assert verify(out, False)[1]
    (path,) = (one for one in (out / "origin/checkpoints").iterdir() if ("rank" in one.name) == part)
    whole = path.read_bytes()
    path.write_bytes(whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:])
    text, good = verify(out, False)
    assert not good
    assert re.search(rf"damaged .*{path.name}.*\n +no more points can be made", text)
    path.unlink()
    assert not verify(out, False)[1]


def test_points_do_not_start_from_a_checkpoint_that_was_replaced(small: Path) -> None:
    first = alone(small, "first", *FROZEN, "run.displays=1")
    settings = (f"run.start_from={first}", "run.displays=4")
    swept(small, "waves", *settings, f"sweep.{KEY}=[0.2, 0.3]").close()
    shutil.rmtree(first)
    alone(small, "first", *FROZEN, "run.displays=1", "run.seed=7")
    with pytest.raises(InputError, match=r"files have changed(.|\n)*step_000000010\.h5"):
        swept(small, "waves", *settings, f"sweep.{KEY}=[0.2, 0.3, 0.4]", extend=True)


def test_points_of_another_network_are_not_extended(small: Path) -> None:
    swept(small, "waves", SWEEP, "sweep.wave=2")
    with pytest.raises(RunDirectoryError, match=r"layers.V1.tau = 11.0, in the directory 10.0"):
        swept(small, "waves", SWEEP, "layers.V1.tau=11.0", extend=True)
    alone(small, "whole", *FROZEN)
    with pytest.raises(RunDirectoryError, match="has no points"):
        swept(small, "whole", SWEEP, extend=True)


def test_a_signal_stops_between_waves(
    small: Path, whole: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = plan.waves

    def signalled(*arguments: object) -> object:
        yield from made(*arguments)  # type: ignore[arg-type]
        signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr(plan, "waves", signalled)
        with pytest.raises(StoppedEarly, match="stopped with 2 of 5 points"):
            swept(small, "waves", SWEEP, "sweep.wave=2")
    with results.open(small.parent / "waves") as run:
        assert (run.status, run.attributes["points"]["finished"]) == ("stopped", 2)
    assert_same(recorded(simulation.resume(small.parent / "waves", mpi=False, quiet=True)), whole)


def unstable(values: Sequence[float]) -> tuple[str, ...]:
    """Return settings of a sweep of gains, of which those beyond 1 make numbers that are not finite."""
    return (f"sweep.connections.recon_to_error.strength={list(values)}", "run.display=400")


@pytest.mark.parametrize("wave", [2, 3])
def test_points_that_are_not_finite_fail_and_the_others_go_on(
    small: Path, petabatch: Command, wave: int
) -> None:
    settings = [f"-s{text}" for text in (*FROZEN, *unstable([1.0, -80.0, 0.5]), f"sweep.wave={wave}")]
    out = small.parent / "waves"
    done = petabatch("run", small, "--out", out, "-q", *settings)
    assert done.returncode == 4, done.stderr
    assert "1 of 3 points failed" in done.stderr
    with results.open(out) as run:
        assert (run.attributes["points"]["finished"], run.failed) == (2, 1)
        failed = run.coordinates["failed"]
        assert (failed[:3].tolist(), failed[6:].tolist()) == ([-1] * 3, [-1] * 3)
        step = int(failed[3])
        assert step == 400  # the end of the display, wherever other slices meet
        series = run["probes/energy/total"]
        assert np.isnan(series[...][series.steps >= step, 3:6]).all()
        assert np.isfinite(series[...][:, [0, 1, 2, 6, 7, 8]]).all()
    sound = recorded(swept(small, "sound", *unstable([1.0, 0.5])))
    kept = recorded(results.open(out))
    for name in ("layers/V1/A", "probes/energy/total"):
        assert np.array_equal(np.delete(kept[name], slice(3, 6), axis=1), sound[name])
    page = petabatch("info", out).stdout
    assert "2 of 3 points finished, 1 failed" in page
    assert f"strength -80: step {step}: " in page
    assert petabatch("resume", out).returncode == 1  # nothing is left
    again = petabatch("resume", out, "--retry-failed", "-q")
    assert again.returncode == 4, again.stderr
    assert f"`petabatch resume {out} --retry-failed` makes them again" in again.stderr


def test_a_point_that_raises_fails_alone(small: Path) -> None:
    text = "\n".join([
        "from typing import Literal",
        "from petabatch.layers import LCA",
        "class Picky(LCA):",
        "    type: Literal['picky'] = 'picky'",
        "    def prepare(self, state, activity, dt):",
        "        if 0.29 < self.threshold < 0.31:",
        "            raise ValueError('no threshold of 0.3, please')",
        "        super().prepare(state, activity, dt)",
    ])  # fmt: skip
    (small.parent / "picky.py").write_text(text)
    run = swept(
        small,
        "waves",
        SWEEP,
        "sweep.wave=5",
        "layers.V1.type=picky",
        "plugins=['picky.py']",
        "run.kernel=array",
    )
    assert run.coordinates["failed"][::3].tolist() == [-1, -1, 0, -1, -1]
    (kept,) = points.PointsFiles(RunDirectory.open(small.parent / "waves")).read()
    assert "no threshold of 0.3, please" in kept.why[2]


def test_chunks_on_one_directory_are_joined_to_the_bits_of_one_run(
    small: Path, whole: dict[str, np.ndarray], petabatch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = small.parent / "chunks"
    command = ("run", small, "--out", out, "-q", *(f"-s{text}" for text in (*FROZEN, SWEEP)))
    for chunk in (3, 1):
        assert run_chunk(small, [*FROZEN, SWEEP], out, Chunk(chunk, 3), mpi=False, quiet=True) == (0, "point")
    assert str(join(out)) == "3 of 5 points finished"
    assert "3 of 5 points finished" in describe(out)
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    monkeypatch.setenv("SLURM_ARRAY_TASK_MIN", "1")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "3")
    done = petabatch(*command, "--chunk", "auto")
    assert done.returncode == 0, done.stderr
    assert len(list((out / "points").iterdir())) == 6  # a file and a log for each job
    assert "5 points are finished, 2 of them not in run.h5" in describe(out)
    assert petabatch("join", out).stdout == "5 of 5 points finished\n"
    assert_same(recorded(results.open(out)), whole)


@pytest.mark.parametrize("ranks", [2])
def test_ranks_take_points_each(
    small: Path, whole: dict[str, np.ndarray], petabatch: Command, ranks: int
) -> None:
    out = small.parent / "ranks"
    settings = [f"-s{text}" for text in (*FROZEN, SWEEP, "sweep.wave=2")]
    done = petabatch("run", small, "--out", out, "-q", *settings, ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert len({name.stem for name in points.names_of(out)}) == ranks
    assert_same(recorded(results.open(out)), whole)


def test_wrong_points_are_refused_before_anything_is_written(small: Path) -> None:
    with pytest.raises(ParamsError, match=r"value 1 \(from 0\): "):
        swept(small, "waves", f"sweep.{KEY}=[0.2, -1.0]", "sweep.wave=1")
    with pytest.raises(ParamsError, match="there is no layer V2"):
        swept(small, "waves", "sweep.layers.V2.threshold=[0.2, 1.0]", "sweep.wave=1")
    with pytest.raises(ParamsError, match="this run has no sweep"):
        swept(small, "waves", extend=True)
    assert not (small.parent / "waves").exists()
