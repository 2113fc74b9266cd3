"""The drive in TF32: emulated, against factors rounded as those of tensor cores; and its effect on a code."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.transfer import Curve
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from support import golden
from support.cuda_problem import Plain, Problem, emulated, few, relative, small
from support.gpu_emulation import to_tf32
from support.loops import NUMPY, TRANSFERS, geometries, plain

SOFT = [name for name in ("lca_fixed", "lca_momentum", "ista") if name in golden.names()]


def one_step(case: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return V after a step, of rounded factors and of plain ones, in float64."""
    recon, _, V, A = case.state
    error = (np.float32(0.75) * case.image - recon).astype("f8")
    weights, e = case.weights.astype("f8")[:, None], float(case.decays()[0])
    drives = NUMPY.project(to_tf32(error), to_tf32(weights), case.p), NUMPY.project(error, weights, case.p)
    both = [e * V + (1 - e) * (drive + (A if case.self_interaction else 0)) for drive in drives]
    return both[0], both[1]


@emulated
@few
@given(p=geometries(70), self_interaction=st.booleans(), per_slice=st.booleans())
def test_the_drive_is_that_of_rounded_factors(p: Patches, self_interaction: bool, per_slice: bool) -> None:
    case = Problem(p, TRANSFERS[0], self_interaction, per_slice=per_slice, gpu=Plain(tf32=True))
    expected, plainly = one_step(case)
    found = case.run("step", [1])[2]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=3e-6)
    assume(p.length * p.positions > 9)
    assert abs(plainly - expected).max() > 1e-5


@emulated
@pytest.mark.parametrize("p", [plain(16, 16, 128, 8, 2, 3), plain(9, 7, 150, 5, 1, 1)], ids=["W1", "odd"])
def test_large_tiles_of_many_features_agree_with_rounded_factors(p: Patches) -> None:
    case = Problem(p, Curve.of("soft", 1.5), lanes=1, gpu=Plain(tf32=True))
    np.testing.assert_allclose(case.run("step", [1])[2], one_step(case)[0], rtol=1e-5, atol=3e-6)


@emulated
def test_four_hundred_steps_in_tf32_stay_near_float64() -> None:
    case = Problem(small, Curve.of("soft", 0.4), lanes=1, decay=math.exp(-1 / 30), gpu=Plain(tf32=True))
    errors = [
        relative(mine, theirs)
        for mine, theirs in zip(case.run("step", [400]), case.reference(400)[0], strict=True)
    ]
    assert 1e-5 < max(errors) < 2e-3


@pytest.mark.parametrize("name", SOFT)
def test_golden_cases_with_rounded_factors_stay_near_float64(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def saved() -> dict[str, np.ndarray]:
        case = golden.Case(name).network()
        run = case.run.model_copy(update={"precision": "float64"})
        engine = Engine(schedule(build(case.model_copy(update={"run": run}))), Serial(), 1)
        engine.start()
        for _ in drive(engine):
            pass
        return {key: array for key, array in engine.state.saved().items() if array.dtype == float}

    expected, project = saved(), ArrayKernels.project

    def tensor(self: ArrayKernels, fine: Any, patches: Any, *rest: Any) -> Any:
        return project(self, to_tf32(fine), to_tf32(patches), *rest)

    monkeypatch.setattr(ArrayKernels, "project", tensor)
    found = saved()
    assert any(relative(found[key], values) > 1e-5 for key, values in expected.items())
    for key, values in expected.items():
        assert relative(found[key], values) < 2e-3, key
