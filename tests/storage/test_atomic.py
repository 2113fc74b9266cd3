"""Files that are complete or not there at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from petabatch.errors import StorageError
from petabatch.storage.atomic import new_file


def test_a_file_that_is_not_completed_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for text in (b"first", b"second"):
        with new_file(path) as file:
            file.write(text)

    def fail(error: Exception) -> None:
        with new_file(path) as file:
            file.write(b"third")
            raise error

    for error, shown in ((OSError(28, "No space left on device"), StorageError), (KeyError(), KeyError)):
        with pytest.raises(shown):
            fail(error)
        assert path.read_bytes() == b"second"
        assert os.listdir(tmp_path) == ["run.json"]


def test_a_file_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: done.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    )
    replace = os.replace

    def replaced(source: Path, target: Path) -> None:
        assert source.read_bytes() == b"all of it"
        done.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    with new_file(tmp_path / "run.json") as file:
        file.write(b"all of it")
    assert done == [str(tmp_path / ".run.json.tmp"), "replace", str(tmp_path)]


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("kept")
    (tmp_path / ".run.json.tmp").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match=r"run\.json: cannot be written"), new_file(tmp_path / "run.json"):
        pass
    assert (tmp_path / "elsewhere").read_text() == "kept"
