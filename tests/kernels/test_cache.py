"""Compiled kernels are found by what they were made of, where there is room for them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from petabatch.kernels import cache

CALLEE = "from petabatch.kernels.cpu.jit import njit\n@njit()\ndef callee():\n    return {}\n"
CALLER = """from petabatch.kernels.cpu.jit import njit
from callee import callee
@njit()
def caller():
    return callee()
print(caller(), sum(caller.stats.cache_hits.values()))
"""


def result(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder / "cache"))
    code = "import logging; logging.basicConfig(); import caller"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return [*done.stdout.split(), *(["damaged"] if "is damaged and is compiled again" in done.stderr else [])]


@pytest.mark.long
def test_a_damaged_kernel_is_compiled_again_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(1))
    (tmp_path / "caller.py").write_text(CALLER)
    assert result(tmp_path, monkeypatch) == ["1", "0"]
    assert result(tmp_path, monkeypatch) == ["1", "1"]
    (file,) = (tmp_path / "cache").rglob("caller.caller-*.kernel")
    content = file.read_bytes()
    for damaged in (b"", content[:40], content[:-1] + bytes([content[-1] ^ 1])):
        file.write_bytes(damaged)
        assert result(tmp_path, monkeypatch) == ["1", "0", "damaged"]
    assert result(tmp_path, monkeypatch) == ["1", "1"]


def test_a_kernel_belongs_to_its_file_and_to_the_sources_of_all_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(1))
    (tmp_path / "caller.py").write_text(CALLER)
    assert result(tmp_path, monkeypatch) == ["1", "0"]
    (tmp_path / "caller.py").write_text(CALLER + "# another text\n")
    assert result(tmp_path, monkeypatch) == ["1", "0"]
    kept = {file.parent.parent.name for file in (tmp_path / "cache").rglob("*.kernel")}
    assert kept == {cache.identity()}
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "a.py").write_text("1")
    monkeypatch.setattr(cache, "_HERE", sources)
    cache.identity.cache_clear()
    first = cache.identity()
    (sources / "a.py").write_text("2")
    cache.identity.cache_clear()
    second = cache.identity()
    assert second != first != kept.pop()
    monkeypatch.setenv("NUMBA_BOUNDSCHECK", "1")
    cache.identity.cache_clear()
    assert cache.identity() not in (first, second)
    monkeypatch.undo()
    cache.identity.cache_clear()


def test_kernels_are_kept_where_there_is_room_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own, user, given = tmp_path / "package", tmp_path / "user", tmp_path / "given"
    monkeypatch.setattr(cache, "OWN", own)
    monkeypatch.setenv("XDG_CACHE_HOME", str(user))

    def place(environment: str = "") -> Path | None:
        monkeypatch.setenv("NUMBA_CACHE_DIR", environment)
        cache._writable_folder.cache_clear()
        return cache.writable_folder()

    assert place() == own
    for name, days in (("former", 40), ("of another environment", 1)):
        (own / name).mkdir()
        os.utime(own / name, (time.time() - days * 86400,) * 2)
    assert place() == own
    assert [folder.name for folder in own.iterdir()] == ["of another environment"]
    (own / "of another environment").rmdir()
    own.rmdir()
    own.write_text("no folder")
    assert place() == user / "petabatch"
    assert (user / "petabatch").stat().st_mode & 0o77 == 0
    assert place(str(given)) == given
    assert not caplog.records
    given.rmdir()
    given.write_text("nor there")
    assert place(str(given)) is place(str(given)) is None
    assert "compiled kernels are not kept: no permission to write, no room" in caplog.text
    assert cache.new_file("a.kernel", "x86-64-v3") is None
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)  # as /tmp: somebody else could have made this folder
    planted = temporary / "planted"
    planted.mkdir()
    planted.chmod(0o777)
    assert place(str(planted)) is None
    file = planted / cache.identity() / "x86-64-v3" / "a.kernel"
    file.parent.mkdir(parents=True)
    file.touch()
    assert cache.find("a.kernel", "x86-64-v3") is None
    planted.chmod(0o700)
    assert place(str(planted)) == planted
    assert cache.find("a.kernel", "x86-64-v3") == file
    cache._writable_folder.cache_clear()


def test_installed_kernels_are_found_after_those_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, installed = tmp_path / "given", tmp_path / "installed"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(given))
    monkeypatch.setattr(cache, "SHIPPED", installed)
    files = [folder / cache.identity() / "x86-64-v3" / "a.kernel" for folder in (installed, given)]
    assert cache.find("a.kernel", "x86-64-v3") is None
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text("machine code")
        assert cache.find("a.kernel", "x86-64-v3") == file
        assert cache.find("a.kernel", "x86-64-v4") is None
    assert cache.contents(given, ["a.kernel", "b.kernel"]) == {"x86-64-v3": 1}


def test_kernels_whose_sources_have_changed_since_their_import_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    assert cache.new_file("a.kernel", "x86-64-v3") is not None
    monkeypatch.setattr(cache, "_HERE", tmp_path)
    assert cache.new_file("a.kernel", "x86-64-v3") is None
