"""Compiled kernels follow their sources, also those of the functions they call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from petabatch.kernels.fresh import drop_stale

CALLEE = "from numba import njit\n@njit(cache=True)\ndef callee():\n    return {}\n"
CALLER = """from pathlib import Path
from petabatch.kernels.fresh import drop_stale
drop_stale(Path(__file__).parent)
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
    (tmp_path / "callee.py").write_text(CALLEE.format(2))
    assert result(tmp_path) == ["2", "0"]
    assert result(tmp_path) == ["2", "1"]


def test_a_folder_that_cannot_be_written_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / "__pycache__").write_text("no folder")
    drop_stale(tmp_path)
    assert (tmp_path / "__pycache__").read_text() == "no folder"
