"""A run directory that not all hosts share is found before anything is written to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from petabatch.errors import RunDirectoryError
from petabatch.parallel.comm import Serial
from petabatch.parallel.consistency import name_ranks
from petabatch.storage.claim import Claim
from petabatch.storage.directory import RunDirectory
from petabatch.storage.shared import assert_shared


class Two(Serial):
    """Rank 0 of two on two hosts; what rank 1 sees is given."""

    def __init__(self, sees: bool) -> None:
        super().__init__()
        self.size, self.hosts, self._sees = 2, ("near", "far"), sees

    def gather(self, value: Any) -> list[Any]:
        return [value, self._sees]


def test_a_folder_that_one_host_does_not_share_is_named_with_the_host(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError) as error:
        assert_shared(Two(sees=False), tmp_path / "runs" / "mine")
    assert f"{tmp_path}: this folder is not shared by all hosts" in str(error.value)
    assert "rank 0 (on near) made there is missing on rank 1 (on far)" in str(error.value)
    assert not any(tmp_path.iterdir())


def test_a_shared_folder_is_left_as_it_was(tmp_path: Path) -> None:
    assert_shared(Two(sees=True), tmp_path)
    assert not any(tmp_path.iterdir())


def test_what_a_killed_check_leaves_does_not_keep_a_run_from_being_replaced(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path / "run", "")
    (tmp_path / "run" / ".shared_0123456789abcdef.tmp").touch()
    with Claim() as claim:
        RunDirectory.create(tmp_path / "run", "", force=True, claim=claim)


def test_ranks_are_named_with_their_hosts_if_there_are_several() -> None:
    assert name_ranks([1], ["a", "a"]) == "rank 1"
    assert name_ranks([0, 2, 3], ["a", "a", "b", "b"]) == "ranks 0, 2, 3 (on a, b)"
