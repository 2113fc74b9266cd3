"""A simulator of ranks that share slices: all have whole arrays, as on one rank to rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from petabatch import Simulator, results
from petabatch.errors import ArgumentError, ResourceError
from support.commands import Command
from support.forked import forked_code_on_ranks
from support.simulator_parts import margins
from support.simulator_program import session

SUPPORT = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})"
CALL = f"""
{SUPPORT}
from pathlib import Path
from support.simulator_program import session
session(Path(sys.argv[1]), **{{name: 2 for name in sys.argv[2].split("+")}})
"""
MARGINS = f"""
{SUPPORT}
from pathlib import Path
from support.simulator_parts import margins
margins(Path(sys.argv[1]), rows=2)
"""
ERRORS = f"""
{SUPPORT}
from support.simulator_parts import errors
errors()
"""


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("split", "ranks"),
    [
        ("rows", 2),
        ("features", 2),
        pytest.param("rows", 4, marks=pytest.mark.long),
        pytest.param("rows+features", 4, marks=pytest.mark.long),
    ],
)
def test_a_session_has_the_arrays_of_one_rank(tmp_path: Path, split: str, ranks: int) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
    session(alone)
    done = forked_code_on_ranks(ranks, "-c", CALL, together, split)
    assert done.returncode == 0, done.stderr
    assert_near(together, alone)


@pytest.mark.mpi
def test_tiles_of_an_image_that_is_shown_have_its_margin(tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for folder in (alone, together):
        folder.mkdir()
    margins(alone)
    done = forked_code_on_ranks(2, "-c", MARGINS, together)
    assert done.returncode == 0, done.stderr
    assert_near(together, alone)


def assert_near(folder: Path, other: Path) -> None:
    expected, found = np.load(other / "gathered.npz"), np.load(folder / "gathered.npz")
    assert found.files == expected.files
    for key in expected.files:
        if expected[key].dtype.kind == "f":
            scale = np.abs(expected[key]).max()
            np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=1e-6 * scale, err_msg=key)
        else:
            np.testing.assert_array_equal(found[key], expected[key], err_msg=key)


@pytest.mark.mpi
def test_the_state_of_a_run_that_was_split_is_that_of_a_simulator_of_one_rank(
    small: Path, petabatch: Command
) -> None:
    done = petabatch("run", small, "--out", "two", "-q", "-s", "parallel.rows=2", ranks=2)
    assert done.returncode == 0, done.stderr
    with results.open(small.parent / "two") as run:
        recorded = run["layers/V1/V"][-1]
    with pytest.raises(ResourceError, match="number of ranks does not match"):
        Simulator.from_run(small.parent / "two")
    with Simulator.from_run(small.parent / "two", rows=1) as sim:
        assert sim.n_steps == 60
        np.testing.assert_array_equal(sim["V1"]["V"], recorded)
    with pytest.raises(ArgumentError, match="rows"):
        Simulator.from_run(small.parent / "two", rows=0)


@pytest.mark.mpi
def test_errors_of_one_rank_are_those_of_all_and_leave_them_after_the_same_step() -> None:
    done = forked_code_on_ranks(2, "-c", ERRORS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all well\n" * 2
