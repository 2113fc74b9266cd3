"""The claim of a run on its directory: one run at a time, and none in the directory of another."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from petabatch import simulation
from petabatch.errors import RunDirectoryError, StorageError
from petabatch.session import RunSession
from petabatch.storage import claim
from petabatch.storage.claim import Claim
from petabatch.storage.directory import RunDirectory


def files(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_directory_is_claimed_once_and_free_again_afterwards(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "run", "")
    with Claim() as first, Claim() as second, Claim(rank=1) as other_rank:
        first.take(directory.path)
        other_rank.take(directory.path)
        with pytest.raises(RunDirectoryError, match="another process is running in this directory"):
            second.take(directory.path)
    with Claim() as third:
        third.take(directory.path)


def test_jobs_share_a_claim_which_nobody_has_alone_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "_MOMENT", 0.1)
    directory = RunDirectory.create(tmp_path / "run", "")
    assert not claim.claimed(directory.path)
    with Claim() as one, Claim() as other, Claim() as alone:
        one.take(directory.path, shared=True)
        other.take(directory.path, shared=True)
        assert claim.claimed(directory.path)
        with pytest.raises(RunDirectoryError, match="another process is running in this directory"):
            alone.take(directory.path)
    with Claim() as alone, Claim() as job:
        alone.take(directory.path)
        with pytest.raises(RunDirectoryError, match="another process is running in this directory"):
            job.take(directory.path, shared=True)
    assert not claim.claimed(directory.path)


def test_a_job_waits_for_a_process_that_has_the_claim_for_a_moment(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "run", "")
    with Claim() as alone, Claim() as job:
        alone.take(directory.path)
        later = threading.Timer(0.3, alone.release)
        later.start()
        job.take(directory.path, shared=True)
        later.join()
        assert claim.claimed(directory.path)


def test_force_does_not_replace_a_run_in_progress(tmp_path: Path) -> None:
    with Claim() as held:
        directory = RunDirectory.create(tmp_path / "run", "x = 1", claim=held)
        with pytest.raises(RunDirectoryError, match="another process is running in this directory"):
            RunDirectory.create(directory.path, "x = 2", force=True)
        with held.writing():
            assert directory.params.read_text() == "x = 1"
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
    RunDirectory.create(directory.path, "x = 2", force=True)
    assert directory.params.read_text() == "x = 2"


def moved(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))


def removed(path: Path) -> None:
    shutil.rmtree(path)


def replaced(path: Path) -> None:
    moved(path)
    RunDirectory.create(path, "of another run")


def unlocked(path: Path) -> None:
    os.replace(path / "params.toml", path / "log.txt")


@pytest.mark.parametrize("lose", [moved, removed, replaced, unlocked])
def test_a_run_writes_nothing_to_a_directory_that_is_not_its_own_any_more(
    small: Path, monkeypatch: pytest.MonkeyPatch, lose: Callable[[Path], None]
) -> None:
    out, there = small.parent / "out", dict[str, bytes]()

    def losing(self: RunSession) -> bool:
        if self.engine.step == 20:
            lose(out)
            there.update(files(out))
        return False

    monkeypatch.setattr(RunSession, "_out_of_time", losing)
    with pytest.raises(RunDirectoryError, match="no longer the directory of this run"):
        simulation.run(simulation.read(small), out, quiet=True)
    found = files(out)
    assert [name for name in found if found[name] != there.get(name) and name != "log.txt"] == []


def test_a_directory_that_is_replaced_during_a_write_is_named_as_such(tmp_path: Path) -> None:
    def write() -> None:
        with held.writing():
            replaced(directory.path)
            raise StorageError("the rename failed, since its source is elsewhere")

    with Claim() as held:
        directory = RunDirectory.create(tmp_path / "run", "", claim=held)
        with pytest.raises(RunDirectoryError, match="no longer the directory of this run"):
            write()
