"""Functions and operators: all executors compute what numpy does, also of what is no number, or large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest

from petabatch.equations.functions import FUNCTIONS
from petabatch.kernels.cpu.rows import call_row
from petabatch.kernels.cuda.units.kernel import UnitKernel
from petabatch.kernels.cuda.units.rows import row_body
from petabatch.kernels.cuda.units.source import Term
from petabatch.layers import Neurons
from petabatch.spec.parts import StepContext
from petabatch.weights import Uniform
from support.gpu_emulation import COMPILER, EmulatedGpu

NUMBERS = (np.nan, -np.inf, -3e38, -1e10, -2.5, -0.7, -0.0, 0.0, 1e-30, 0.1, 1.0, 7.3, 9e6, 1e19, np.inf)
X, Y = (np.array(one, "f") for one in zip(*product(NUMBERS, repeat=2), strict=True))
Z = np.random.default_rng(0).permutation(X)
ANGLES = np.abs(X) < 1e15
"""Of larger ones, compiled rows of float32 make NaN."""
_NEAR = (("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan"), ("sinh", "cosh", "tanh", "arctan"))

EXACT: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "+": ("x + y", np.add),
    "-": ("x - y", np.subtract),
    "*": ("x * y", np.multiply),
    "/": ("x / y", np.divide),
    "%": ("x % y", np.remainder),
    "negative": ("-x", lambda x, y, z: -x),
    "<": ("int(x < y)", np.less),
    "<=": ("int(x <= y)", np.less_equal),
    ">": ("int(x > y)", np.greater),
    ">=": ("int(x >= y)", np.greater_equal),
    "==": ("int(x == y)", np.equal),
    "!=": ("int(x != y)", np.not_equal),
    "and": ("int(x > 0 and y > 0)", lambda x, y, z: (x > 0) & (y > 0)),
    "or": ("int(x > 0 or y > 0)", lambda x, y, z: (x > 0) | (y > 0)),
    "not": ("int(not x > y)", lambda x, y, z: ~(x > y)),
    "if": ("x if y > z else z", lambda x, y, z: np.where(y > z, x, z)),
    "abs": ("abs(x)", np.abs),
    "floor": ("floor(x)", np.floor),
    "ceil": ("ceil(x)", np.ceil),
    "sign": ("sign(x)", np.sign),
    "int": ("int(x > 0.1)", lambda x, y, z: x > x.dtype.type(0.1)),
    "min": ("min(x, y)", np.minimum),
    "max": ("max(x, y)", np.maximum),
    "clip": ("clip(x, y, z)", lambda x, y, z: np.minimum(np.maximum(x, y), z)),
}
"""By the key of `FUNCTIONS`; the functions of numpy take as many of x, y and z as they have arguments."""
ROUNDED: Mapping[str, tuple[str, Callable[..., Any]]] = {
    "**": ("x ** y", np.power),
    "** -1": ("x ** -1", lambda x, y, z: 1 / x),
    "** -3": ("x ** -3", lambda x, y, z: 1 / x**3),
    "exprel": ("exprel(x)", lambda x, y, z: np.where(x == 0, 1, np.expm1(x) / np.where(x == 0, 1, x))),
    **{name: (f"{name}(x)", getattr(np, name)) for some in _NEAR for name in some},
}
ALL = [*EXACT.items(), *ROUNDED.items()]


def test_all_functions_are_here() -> None:
    assert {name.split()[0] for name in (*EXACT, *ROUNDED)} == FUNCTIONS.keys()


def layer_of(texts: list[str]) -> Neurons:
    """Return a layer whose variables are these expressions of parameters of each unit, after a step."""
    lines = [f"dv{number}/dt = {text}" for number, text in enumerate(texts)]
    units = {name: Uniform() for name in "xyz" if any(name in text for text in texts)}
    return Neurons(shape=(1, 1, X.size), equations="\n".join(lines), parameters=units, method="euler")


def made_by(executor: str, precision: str, texts: list[str]) -> list[np.ndarray]:
    """Return the variables after a step of dt = 1 from 0."""
    layer = layer_of(texts)
    given = {"x": X, "y": Y, "z": Z}
    zero = np.zeros((1, 1, 1, X.size), precision)
    state = {
        variable.name: given[variable.name].astype(precision).reshape(zero.shape)
        if variable.name in given
        else zero.copy()
        for variable in layer.variables()
    }
    drive, A = [zero.copy() for _ in texts], zero.copy()
    row = layer.compiled_rule().row
    assert row is not None
    if executor == "array":
        layer.update(StepContext(1, 1.0, (0,), 1), state, drive, A.copy(), A)
    elif executor == "compiled":
        arrays = [*drive, *(state[name] for name in row.form.variables), A]
        with np.errstate(all="ignore"):
            call_row(row.function, row.form, row.numbers(1.0), [one.reshape(-1) for one in arrays])
    else:
        device = EmulatedGpu()
        device.enter()
        xp, real = device.xp, {"float32": "float", "float64": "double"}[precision]
        body = row_body(row.function, row.form, real)
        terms = [Term(number, False) for number in range(len(drive))]
        numbers = np.array([row.numbers(1.0)])
        kernel = UnitKernel(device, body, terms, len(drive), xp.zeros((1, 0), precision), numbers)
        there = {name: xp.asarray(state[name]) for name in body.arrays}
        kernel([xp.asarray(one) for one in drive], list(there.values()), xp.asarray(A), xp.asarray(A), 1)
        state |= {name: np.asarray(one) for name, one in there.items()}
    return [state[f"v{number}"].reshape(-1) for number in range(len(texts))]


@pytest.mark.parametrize("executor", ["array", "compiled", "CUDA"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_functions_are_those_of_numpy(executor: str, precision: str) -> None:
    if executor == "CUDA" and COMPILER is None:
        pytest.skip("there is no compiler")
    for first in range(0, len(ALL), 12):  # as many as a layer can have
        some = ALL[first : first + 12]
        found = made_by(executor, precision, [text for _, (text, _) in some])
        for (name, (text, function)), one in zip(some, found, strict=True):
            x, y, z = (values.astype(precision) for values in (X, Y, Z))
            with np.errstate(all="ignore"):
                if isinstance(function, np.ufunc):
                    wanted = function(*(x, y)[: function.nin]).astype(precision)
                else:
                    wanted = function(x, y, z).astype(precision)
            if name in EXACT:
                np.testing.assert_array_equal(one, wanted, err_msg=text)
                continue
            some_units = ANGLES if name in ("sin", "cos", "tan") else np.full(X.shape, True)
            near = {"float32": 2e-6, "float64": 1e-13}[precision]
            np.testing.assert_allclose(
                one[some_units], wanted[some_units], rtol=near, atol=1e-44, err_msg=text
            )


@pytest.mark.parametrize("executor", ["array", "compiled", "CUDA"])
def test_remainders_have_the_sign_of_the_divisor_also_where_they_are_zero(executor: str) -> None:
    if executor == "CUDA" and COMPILER is None:
        pytest.skip("there is no compiler")
    (found,) = made_by(executor, "float32", ["1 / (x % y)"])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, 1 / np.remainder(X, Y))
