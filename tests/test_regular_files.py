"""Regular files: what is none is refused, also if it becomes one while it is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import petabatch
from petabatch import regular_files
from petabatch.errors import ParamsError
from petabatch.regular_files import open_regular, read_text


def test_a_file_that_has_become_a_pipe_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_text("text")
    os.mkfifo(pipe)
    about = file.stat()
    monkeypatch.setattr(regular_files.os, "stat", lambda path: about)
    with pytest.raises(OSError, match="it is a pipe, not a file"):
        open_regular(pipe)


def test_a_text_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "net.toml"
    file.write_bytes(b"\xef\xbb\xbf# a comment\r\n[run]\rsteps = 2\n")
    assert read_text(file) == "# a comment\n[run]\nsteps = 2\n"
    monkeypatch.setattr(regular_files, "MOST_TEXT", 20)
    with pytest.raises(ParamsError, match=r"cannot be read: it is no text of at most 20 B"):
        petabatch.load(file)
