"""`petabatch kernels` tells which kernels are compiled, and compiles them."""

from __future__ import annotations

from pathlib import Path

import pytest

from petabatch.errors import ResourceError
from petabatch.kernels import cache
from petabatch.kernels.cpu import ahead
from petabatch.kernels.cpu.target import LEVELS, target
from support.commands import Command


def test_kernels_are_counted_by_folder_and_level(
    tmp_path: Path, petabatch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    count = len(ahead.kernels())
    shown = petabatch("kernels").stdout.splitlines()
    assert shown[0].split()[-1] == target()
    assert shown[1].split(maxsplit=1) == ["cache", f"none in {tmp_path}"]
    assert shown[2].startswith("installed ")
    kernel, kinds = ahead.kernels()["same float32"]
    for name in (kernel._cache.name(kinds), "a_row_function.kernel"):
        file = tmp_path / cache.identity() / "x86-64-v3" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert f"1 of {count} for x86-64-v3 in {tmp_path}" in petabatch("kernels").stdout


def test_kernels_for_a_level_are_compiled_to_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"same float64", "Fill"}
    every = ahead.kernels()
    some = {name: kernel for name, kernel in every.items() if name in names}
    monkeypatch.setattr(ahead, "kernels", lambda: some)
    assert ahead.compile_for("x86-64-v3", tmp_path) == 2
    (folder,) = (tmp_path / cache.identity()).iterdir()
    assert folder.name == "x86-64-v3"
    monkeypatch.setattr(ahead, "kernels", lambda: {"unknown": every["norm float32"]})
    with pytest.raises(ResourceError, match="0 of 1 kernels for x86-64-v3 were compiled"):
        ahead.compile_for("x86-64-v3", tmp_path)


def test_levels_that_do_not_exist_are_refused(petabatch: Command) -> None:
    refused = petabatch("kernels", "--compile", "--for", "x86-64-v5")
    assert refused.returncode != 0
    for part in ("--for", "there is no such level", "x86-64-v5", *LEVELS):
        assert part in refused.stderr
