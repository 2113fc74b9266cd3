"""Compiled kernels follow their sources, also those of the functions they call."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from petabatch.errors import ResourceError
from petabatch.kernels.cache import invalidate_stale

CALLEE = "from numba import njit\n@njit(cache=True)\ndef callee():\n    return {}\n"
CALLER = """from pathlib import Path
from petabatch.kernels.cache import invalidate_stale
invalidate_stale(Path(__file__).parent)
from numba import njit
from callee import callee
@njit(cache=True)
def caller():
    return callee()
print(caller(), sum(caller.stats.cache_hits.values()))
"""


def result(folder: Path) -> list[str]:
    code = "import caller"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_changed_callee_in_another_file_is_compiled_anew_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(1))
    (tmp_path / "caller.py").write_text(CALLER)
    assert result(tmp_path) == ["1", "0"]
    assert result(tmp_path) == ["1", "1"]
    # of another size: Python does not read a source again that is as large and as old to the second
    (tmp_path / "callee.py").write_text(CALLEE.format(22))
    assert result(tmp_path) == ["22", "0"]
    assert result(tmp_path) == ["22", "1"]


@pytest.mark.parametrize(("kind", "left"), [("nbi", 0), ("nbc", 40)])
def test_a_damaged_kernel_is_compiled_again_with_a_warning(tmp_path: Path, kind: str, left: int) -> None:
    (tmp_path / "callee.py").write_text(CALLEE.format(1))
    (tmp_path / "caller.py").write_text(
        CALLER.replace("from numba", "from petabatch.kernels.cpu.jit").replace("cache=True", "")
    )
    assert result(tmp_path) == ["1", "0"]
    for file in (tmp_path / "__pycache__").glob(f"caller.caller-*.{kind}"):
        file.write_bytes(file.read_bytes()[:left])
    code = "import logging; logging.basicConfig(); import caller"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "0"]
    assert "this compiled kernel is damaged and is compiled again" in done.stderr
    assert result(tmp_path) == ["1", "1"]


def test_kernels_are_kept_where_there_is_room_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, user, temporary, given = (tmp_path / name for name in ("package", "user", "tmp", "given"))
    for folder in (package, user, temporary):
        folder.mkdir()
    (package / "a.py").write_text("1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(user))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    def place(environment: str = "") -> Path:
        monkeypatch.setattr(numba.config, "CACHE_DIR", "")
        monkeypatch.setenv("NUMBA_CACHE_DIR", environment)
        invalidate_stale(package)
        assert os.environ["NUMBA_CACHE_DIR"] == numba.config.CACHE_DIR
        return Path(numba.config.CACHE_DIR)

    assert place() == Path()  # beside the source
    (package / "__pycache__" / "kernels.crc32").unlink(), (package / "__pycache__").rmdir()
    (package / "__pycache__").write_text("no folder")
    first = place()
    assert first.parent == user / "petabatch"
    assert place(str(first)) == first  # as a child of such a process finds it
    (package / "a.py").write_text("2")
    assert place().parent == user / "petabatch"
    assert place() != first  # none of a former source
    (user / "petabatch").rename(tmp_path / "elsewhere")
    (user / "petabatch").write_text("nor here")
    own = place().parent
    assert own == temporary / f"petabatch-{os.getuid()}"
    assert own.stat().st_mode & 0o77 == 0
    own.chmod(0o777)  # now somebody else could put code there
    with pytest.raises(ResourceError, match=r"no place to keep compiled kernels(?s:.)*NUMBA_CACHE_DIR=/"):
        place()
    assert place(str(given)).parent == given
    temporary.chmod(0o1777)  # as /tmp: somebody else could have made this folder
    planted = temporary / "planted"
    planted.mkdir()
    planted.chmod(0o777)
    with pytest.raises(ResourceError, match=r"files of other users, in (?s:.)*planted"):
        place(str(planted))
    planted.chmod(0o700)
    assert place(str(planted)).parent == planted
    given.rename(tmp_path / "away")
    given.write_text("nor there")
    with pytest.raises(ResourceError, match=f"in {given}\n"):
        place(str(given))
