"""Sums by target, and the order of every sum of floating-point numbers on a GPU."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import petabatch
from petabatch.kernels.segments import Segments
from support.strict_arrays import far

PACKAGE = Path(petabatch.__file__).parent
ATOMIC = re.compile(r"\batomic|\bred\.(?:global|shared|async)|\bcooperative_groups::reduce_update")
"""Names of CUDA C++ and PTX."""
UNORDERED = {"scatter_add", "scatter_max", "scatter_min", "histogram", "histogram2d", "histogramdd"}
"""Functions of CuPy that add up by atomic operations, besides `ufunc.at` and `bincount` with weights."""


@pytest.mark.parametrize("xp", [np, far], ids=["numpy", "like CuPy"])
@given(
    targets=st.lists(st.integers(0, 6), max_size=60) | st.just([3] * 700),
    count=st.integers(7, 9),
)
def test_numbers_with_the_same_target_are_added_up(xp: object, targets: list[int], count: int) -> None:
    values = np.random.default_rng(0).integers(-50, 50, (2, 3, len(targets))).astype("f4")
    found = Segments.of(xp, xp.asarray(np.array(targets, "i4")), count).add_up(xp, xp.asarray(values))  # type: ignore[attr-defined]
    expected = np.zeros((2, 3, count))
    np.add.at(expected, (slice(None), slice(None), np.array(targets, int)), values)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.view(np.ndarray), expected)


def test_the_order_of_a_sum_does_not_depend_on_what_else_is_added_up() -> None:
    rng = np.random.default_rng(1)
    targets = rng.integers(0, 5, 400)
    values = rng.standard_normal((6, 400)).astype("f4")
    whole = Segments.of(np, targets, 5).add_up(np, values)
    for slice_ in range(6):
        np.testing.assert_array_equal(Segments.of(np, targets, 5).add_up(np, values[slice_]), whole[slice_])
    for target in range(5):
        mine = np.flatnonzero(targets == target)
        alone = Segments.of(np, np.zeros(len(mine), int), 1).add_up(np, values[:, mine])
        np.testing.assert_array_equal(alone[:, 0], whole[:, target])


def test_no_kernel_adds_up_by_atomic_operations() -> None:
    folder = PACKAGE / "kernels" / "cuda"
    sources, translated = sorted(folder.glob("*.cu*")), sorted(folder.glob("units/*.py"))
    assert len(sources) >= 5
    assert len(translated) >= 6
    for file in (*sources, *translated):
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", file.read_text("utf-8"), flags=re.S)
        assert not ATOMIC.search(code), file


def unordered(tree: ast.AST) -> list[str]:
    """Return the calls of array modules whose sums depend on timing on a GPU."""
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        called = ast.unparse(call.func)
        name = call.func.attr
        owner = getattr(call.func.value, "attr", "")
        of_ufunc = name == "at" and isinstance(getattr(np, owner, None), np.ufunc)
        weighted = name == "bincount" and (
            len(call.args) > 1 or any(key.arg == "weights" for key in call.keywords)
        )
        if (of_ufunc or weighted or name in UNORDERED) and not called.startswith(("np.", "numpy.")):
            found.append(called)
    return found


@pytest.mark.long
def test_no_call_of_an_array_module_adds_up_by_atomic_operations() -> None:
    for text in ("xp.add.at(a, b, c)", "self.xp.bincount(a, weights=b)", "cupyx.scatter_add(a, b, c)"):
        assert unordered(ast.parse(text))
    assert not unordered(ast.parse("np.add.at(a, b, c)\nxp.bincount(a, minlength=3)\nself.sweep.at(3)"))
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 200
    wrong = {str(file): calls for file in files if (calls := unordered(ast.parse(file.read_text("utf-8"))))}
    assert not wrong


def test_arrays_like_those_of_cupy_refuse_such_calls() -> None:
    total = far.zeros(3)
    with pytest.raises(AttributeError):
        far.add.at(total, far.asarray([0, 0, 1]), far.ones(3))
    with pytest.raises(TypeError, match="depends on timing"):
        far.bincount(far.asarray([0, 0, 1]), weights=far.ones(3))
    with pytest.raises(TypeError, match="depends on timing"):
        np.add.at(total, [0, 0, 1], 1.0)
