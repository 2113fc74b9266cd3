"""What killed processes leave in the directory of a sweep in waves, and who removes it beside jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from petabatch import simulation
from petabatch.errors import RunDirectoryError
from petabatch.report.integrity import verify
from petabatch.storage import claim, points, points_writer
from petabatch.storage.claim import Claim
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import temporary_name
from petabatch.storage.verify import repair
from petabatch.waves import checkpoints, run, session
from petabatch.waves.queue import Chunk

SETTINGS = (
    "connections.dictionary.learn.every='never'",
    "run.displays=1",
    "sweep.layers.V1.threshold=[0.2, 0.3, 0.4, 0.5]",
    "sweep.wave=1",
)


def merged_with_leftovers(small: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[Path]]:
    """Return a sweep whose process was killed when it had merged files, and while it wrote others."""
    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    monkeypatch.setattr(points_writer, "_FAN", 2)
    out = small.parent / "waves"
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", lambda path, missing_ok=False: None)
        simulation.run(simulation.read(small, SETTINGS), out, mpi=False, quiet=True)
    (wide,) = points.names_of(out)
    superseded = [path for path in (out / "points").glob("*.h5") if path.name != str(wide)]
    assert superseded
    unfinished = [
        out / "points" / temporary_name(superseded[0].name),
        out / "checkpoints" / temporary_name(f"{wide.stem}.h5"),
    ]
    for path in unfinished:
        path.write_bytes(b"cut")
    (out / "run.h5").unlink()
    return out, [*superseded, *unfinished]


def resumed(out: Path) -> None:
    simulation.resume(out, mpi=False, quiet=True)


def job(out: Path) -> None:
    run.run_chunk(out.parent / "small.toml", SETTINGS, out, Chunk(1, 1), mpi=False, quiet=True)
    assert not list((out / "points").glob(temporary_name("*")))
    run.join(out)


def repaired(out: Path) -> None:
    run.repair(RunDirectory.open(out))


@pytest.mark.parametrize("again", [resumed, run.join, job, repaired])
def test_leftovers_of_killed_processes_are_removed_and_no_point_is_made_again(
    small: Path, monkeypatch: pytest.MonkeyPatch, again: Callable[[Path], object]
) -> None:
    out, left = merged_with_leftovers(small, monkeypatch)
    before = [(path, path.read_bytes()) for path in (out / "points").glob("*.h5") if path not in left]
    again(out)
    assert not [path for path in left if path.exists()]
    assert [path.read_bytes() for path, _ in before] == [data for _, data in before]
    assert (out / "run.h5").exists()


def test_leftovers_stay_while_jobs_run_which_may_be_writing_them(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, left = merged_with_leftovers(small, monkeypatch)
    with Claim() as job:
        job.take(out, shared=True)
        run.join(out)
        assert all(path.exists() for path in left)
        with pytest.raises(RunDirectoryError, match="another process is running in this directory"):
            resumed(out)
        assert all(path.exists() for path in left)


def test_leftovers_stay_where_the_file_system_has_no_locks(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(file: int, kind: int) -> None:
        raise OSError

    out, left = merged_with_leftovers(small, monkeypatch)
    monkeypatch.setattr(claim.fcntl, "flock", without)
    resumed(out)
    assert all(path.exists() for path in left)


def test_merged_files_stay_where_the_one_that_has_them_is_damaged(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, left = merged_with_leftovers(small, monkeypatch)
    (wide,) = points.names_of(out)
    path = out / "points" / str(wide)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    points.drop_superseded(points.RunDirectory.open(out))
    assert all(one.exists() for one in left)


def test_damaged_points_are_taken_out_of_a_sweep(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = small.parent / "waves"
    simulation.run(simulation.read(small, SETTINGS), out, mpi=False, quiet=True).close()
    damaged = points.names_of(out)[0]
    path = out / "points" / str(damaged)
    path.write_bytes(path.read_bytes()[:-60])
    assert repair(RunDirectory.open(out)) == [("lost", f"points/{damaged}")]
    assert path.with_name(f"{path.name}.lost").exists()
    assert damaged not in points.names_of(out)


def test_a_job_has_a_claim_beside_which_nothing_is_repaired(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, index = small.parent / "jobs", session.WavesSession.run
    seen = []

    def meanwhile(self: session.WavesSession, *arguments: object) -> None:
        assert claim.claimed(out)
        with pytest.raises(RunDirectoryError, match="another process is running in this directory"):
            run.repair(self.directory)
        with Claim() as other:
            other.take(out, shared=True)  # as another job
        seen.append(self.directory.path)
        index(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(session.WavesSession, "run", meanwhile)
    for number in (1, 2):
        assert run.run_chunk(small, SETTINGS, out, Chunk(number, 2), mpi=False, quiet=True) == (0, "point")
    assert seen == [out, out]
    assert not claim.claimed(out)
    assert run.repair(points.RunDirectory.open(out)) == [("rebuilt", "run.h5")]


def test_a_sweep_that_was_killed_between_its_last_state_and_its_first_index_is_whole(small: Path) -> None:
    out = small.parent / "waves"
    simulation.run(simulation.read(small, SETTINGS[:3]), out, mpi=False, quiet=True).close()
    assert list((out / "checkpoints").iterdir())
    for name in ("run.h5", "run.json"):
        (out / name).unlink()
    text, whole = verify(out, repairing=False)
    assert whole, text
    with simulation.resume(out, mpi=False, quiet=True) as run:
        assert run.status == "done"
