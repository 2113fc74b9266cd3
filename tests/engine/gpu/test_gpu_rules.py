"""Every rule of units on an emulated GPU, against the layers' own updates on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.steppers.cuda import CudaStepper
from petabatch.errors import ParamsError, ResourceError
from petabatch.kernels.cuda import source
from petabatch.kernels.cuda.accelerated import Accelerated
from petabatch.kernels.cuda.cell import cell_constants
from petabatch.kernels.cuda.device import Limits
from petabatch.kernels.cuda.numbers import SliceNumbers
from petabatch.kernels.rules import ACCELERATED, RULES, Units
from petabatch.layers import FISTA
from petabatch.network.build import build
from petabatch.network.method import choose
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from petabatch.spec.parts import StepContext
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.loops import plain
from support.sparse_coding import CODES, SCALES, network

emulated = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)


def rule(code: str) -> str:
    """Return the name of the compiled rule of a code layer."""
    return network(code).layers["V1"].compiled_rule().name


def saved(wanted: Network, device: Any = None) -> dict[str, np.ndarray]:
    """Return all arrays at the end of a run, which on a GPU must have been made by its kernels."""
    limits = None if device is None else device.limits
    engine = Engine(schedule(build(wanted), limits), Serial(), 1, device)
    assert device is None or isinstance(engine.lanes[0].stepper, CudaStepper)
    engine.start()
    for _ in drive(engine):
        pass
    engine.collect()
    return engine.state.saved()


def assert_near(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-4, atol=2e-5, err_msg=key)


@pytest.mark.sampled(4)
@emulated
@pytest.mark.parametrize(
    ("code", "kernel"),
    [
        (code, kernel)
        for code in CODES
        for kernel in ("display", "step")
        if RULES.get(rule(code)) in (source.DISPLAY_RULES if kernel == "display" else RULES.values())
    ],
)
def test_a_layer_on_a_gpu_agrees_with_its_own_update(code: str, kernel: str) -> None:
    wanted = network(code, slices=1, learn=False, device="gpu", kernel=kernel)
    expected = saved(network(code, slices=1, learn=False, kernel="array"))
    assert expected["layers/V1/A"].any()
    assert_near(saved(wanted, EmulatedGpu()), expected)


@emulated
@pytest.mark.parametrize("code", ["heavy_ball", "ista"])
def test_time_scales_of_each_rule_agree_with_the_controllers(code: str) -> None:
    keys = {"time_scale": SCALES["knee"]}
    expected = saved(network(code, keys=keys, learn=False, kernel="array"))
    assert (expected["layers/V1/time_scale"] > 0.6).all()
    found = saved(network(code, keys=keys, learn=False, device="gpu"), EmulatedGpu())
    assert_near(found, expected)


class Plain(EmulatedGpu):
    """An emulated GPU on whose arrays numpy works."""

    xp = np


@emulated
@pytest.mark.parametrize("signed", [False, True])
def test_fista_of_many_blocks_a_slice_agrees_with_its_layer(signed: bool) -> None:
    lanes, p, rng = 3, plain(13, 11, 61, 3, 1, 1), np.random.default_rng(0)
    assert p.positions * p.features > 4 * 2048
    layer = FISTA(shape=(13, 11, 61), threshold=0.4, signed=signed, step=0.05)
    shape = (lanes, 13, 11, 61)
    state = {
        "A_before": rng.standard_normal(shape).astype("f4"),
        "drive_before": rng.standard_normal(shape).astype("f4"),
        "step": np.array([0.05, 0.4, 0.05]),
        "age": np.array([1.5, 3.0, 1.5]),
    }
    A = rng.standard_normal(shape).astype("f4")
    A[2] = state["A_before"][2]
    ages = []
    mine = {name: array.copy() for name, array in state.items()} | {"A": A.copy()}
    rest = Accelerated(Plain(), p, cell_constants(layer.compiled_rule().cell(ACCELERATED, 1), 1.0), lanes)
    for step, reach in enumerate((0.1, 300.0, 3e5, 0.1)):
        # Twice the drive turns too far: the step is halved and the momentum restarts, then it goes back.
        drive = (mine["drive_before"] + reach * rng.standard_normal(shape)).astype("f4")
        if step == 0:  # at rest, a step does not grow
            drive[2] = mine["drive_before"][2]
        units = Units(mine["A"], mine["A_before"], mine["drive_before"])
        rest.run(drive.copy(), units, (mine["step"], mine["age"]), SliceNumbers(np, lanes, False))
        layer.update(StepContext(step, 1.0, tuple(range(lanes)), 0, np, 9), state, [drive], A.copy(), A)
        for name, values in {**state, "A": A}.items():
            np.testing.assert_allclose(mine[name], values, rtol=1e-5, atol=1e-5, err_msg=name)
        ages.append(state["age"].copy())
    np.testing.assert_array_equal(np.sign(ages), [[1, 1, 1], [-1, -1, -1], [-1, -1, -1], [1, 1, 1]])


def test_fista_pinned_to_the_display_kernel_is_refused() -> None:
    with pytest.raises(ParamsError, match="layers of type fista have no display kernel"):
        build(network("fista", device="gpu", kernel="display"))


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ({"kernel": "step"}, 'run.kernel is "step"'),
        ({"tf32": True}, "TF32 is for the step kernel"),
        ({"kernel": "step", "tf32": True}, 'run.kernel is "step"'),
        ({"kernel": "display", "tf32": True}, "a slice needs"),
    ],
)
def test_the_reason_is_the_condition_that_decides(run: dict[str, Any], reason: str) -> None:
    assert choose(build(network("lca", device="gpu", **run))).reason.startswith(reason)


def test_a_kernel_that_is_too_large_for_this_gpu_is_an_error_only_if_it_is_pinned() -> None:
    tiny = Limits(1, 2**17, 2**13)
    method = choose(build(network("lca", device="gpu")), tiny)
    assert (method.kernel, method.reason) == ("step", "a slice does not fit the display kernel")
    assert choose(build(network("fista", device="gpu")), tiny).reason.startswith("layers of type fista")
    with pytest.raises(ResourceError, match="a slice does not fit the display kernel"):
        choose(build(network("lca", device="gpu", kernel="display")), tiny)


@pytest.mark.parametrize(
    ("code", "run", "expected"),
    [
        ("lca", {}, "compiled program: error, V1, recon, because all layers have compiled steps"),
        ("lca", {"precision": "float64"}, "compiled program: error, V1, recon, because all layers"),
        ("lca", {"precision": "float64", "kernel": "array"}, "layer by layer"),
        (
            "ista",
            {"device": "gpu"},
            "CUDA display kernel: error, V1, recon, because a slice needs 13",
        ),
        (
            "heavy_ball",
            {"device": "gpu", "kernel": "step"},
            'CUDA step kernel: error, V1, recon, because run.kernel is "step"',
        ),
        ("lca", {"device": "gpu", "tf32": True}, "CUDA step kernel: error, V1, recon, because TF32"),
        ("fista", {"device": "gpu"}, "CUDA step kernel: error, V1, recon, because layers of type fista"),
        ("fista", {"device": "gpu", "kernel": "array"}, "layer by layer"),
    ],
)
def test_check_says_which_kernels_make_the_steps(code: str, run: dict[str, Any], expected: str) -> None:
    assert str(choose(build(network(code, **run)))).startswith(expected)
