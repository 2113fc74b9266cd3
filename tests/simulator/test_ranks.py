"""A simulator on real ranks: each has its own slices, and all together the bits of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from support import simulator_faults
from support.forked import forked_code_on_ranks
from support.simulator_program import session

CALL = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support.simulator_program import session
session(Path(sys.argv[1]))
"""
FAULTS = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from support.simulator_faults import session
session(Path(sys.argv[1]))
"""


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.long), 3])
def test_a_session_on_ranks_has_the_bits_of_one_alone(tmp_path: Path, ranks: int) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
    session(alone)
    done = forked_code_on_ranks(ranks, "-c", CALL, together)
    assert done.returncode == 0, done.stderr
    expected, found = np.load(alone / "gathered.npz"), np.load(together / "gathered.npz")
    assert found.files == expected.files
    for key in expected.files:
        np.testing.assert_array_equal(found[key], expected[key], err_msg=key)
    assert (together / "state.h5").stat().st_size == (alone / "state.h5").stat().st_size


@pytest.mark.mpi
@pytest.mark.long
def test_errors_and_interrupts_of_one_rank_leave_all_after_the_same_whole_step(tmp_path: Path) -> None:
    simulator_faults.session(tmp_path, faults=False)
    with np.load(tmp_path / "faults.npz") as alone:
        expected = dict(alone)
    done = forked_code_on_ranks(2, "-c", FAULTS, tmp_path)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "faults.npz") as found:
        assert found.files == list(expected)
        for key, array in expected.items():
            np.testing.assert_array_equal(found[key], array, err_msg=key)
