"""Updates of layers as kernels: what they do with symbols is what they do with arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from petabatch.kernels.cuda.units.kernel import UnitKernel
from petabatch.kernels.cuda.units.source import Term, source
from petabatch.kernels.cuda.units.traced import Untraced, traced
from petabatch.layers import (
    ISTA,
    LCA,
    FirmCost,
    HeavyBall,
    LeakyIntegrator,
    Linear,
    Mask,
    MomentumLCA,
    Product,
    Quotient,
    Rectified,
    Sigmoid,
    Squared,
)
from petabatch.spec.parts import Layer, StepContext
from support import nvrtc
from support.gpu_emulation import EmulatedGpu

SHAPE = (3, 5, 20)
SLICES = 3
LAYERS: Sequence[Layer] = (
    Linear(shape=SHAPE, scale=0.3),
    Rectified(shape=SHAPE, threshold=0.1, maximum=0.7),
    Rectified(shape=SHAPE, vertices=((-0.5, -0.1), (0.2, 0.3), (0.2, 0.4)), slopes=(0.5, 2.0)),
    Sigmoid(shape=SHAPE, center=0.2, width=0.7),
    Sigmoid(shape=SHAPE, form="line", invert=True),
    Product(shape=SHAPE),
    Quotient(shape=SHAPE),
    Squared(shape=SHAPE),
    FirmCost(shape=SHAPE, corner=0.4),
    Mask(shape=SHAPE, invert=True),
    LeakyIntegrator(shape=SHAPE, tau=3.0),
    LCA(shape=SHAPE, tau=3.0, threshold=0.2),
    LCA(shape=SHAPE, tau=3.0, threshold=0.2, transfer="firm", width=0.3, signed=True),
    LCA(shape=SHAPE, tau=3.0, transfer="hard", self_interact=False, minimum=0.1),
    ISTA(shape=SHAPE, tau=3.0, threshold=0.2),
    HeavyBall(shape=SHAPE, tau=3.0, threshold=0.2, beta=0.7),
    MomentumLCA(shape=SHAPE, tau=3.0, threshold=0.2),
)
CTX = StepContext(3, 0.5, tuple(range(SLICES)), 1)


def update_of(layer: Layer) -> Callable[..., None]:
    def update(xp: Any, *arrays: Any) -> None:
        ctx = StepContext(CTX.step, CTX.dt, CTX.slices, CTX.seed, xp)
        layer.update(ctx, *arrays)

    return update


def names_of(layer: Layer) -> list[str]:
    return [variable.name for variable in layer.variables()]


@pytest.mark.sampled(17)
@pytest.mark.parametrize(("depth", "dtype"), [(1, "float32"), (2, "float32"), (2, "float64")])
@pytest.mark.parametrize("layer", LAYERS, ids=[f"{one.type}{n}" for n, one in enumerate(LAYERS)])
def test_updates_on_symbols_are_those_on_arrays(layer: Layer, depth: int, dtype: str) -> None:
    rng, device = np.random.default_rng(1), EmulatedGpu()
    device.enter()
    device.checked = True

    def some(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    history = some(SLICES, depth, *SHAPE)
    state = {name: some(SLICES, *SHAPE) for name in names_of(layer)}
    factors = some(SLICES, layer.buffers)
    # Two sources of each buffer: one that all slices share, and one with a factor of each slice.
    sources = [(some(1, *SHAPE), some(SLICES, *SHAPE)) for _ in range(layer.buffers)]
    drive = [
        shared + factors[:, buffer].reshape(-1, 1, 1, 1) * own for buffer, (shared, own) in enumerate(sources)
    ]

    body, constants = traced(
        update_of(layer), list(state), layer.buffers, depth == 1, {"float32": "float"}.get(dtype, "double")
    )
    terms = [Term(buffer, scaled) for buffer in range(layer.buffers) for scaled in (False, True)]
    table = np.concatenate([factors, np.tile(constants, (SLICES, 1)).astype(dtype)], axis=1)
    xp = device.xp
    kernel = UnitKernel(device, body, terms, layer.buffers, xp.asarray(table), np.empty((SLICES, 0)))
    there = {name: xp.asarray(values) for name, values in state.items()}
    far = xp.asarray(history)
    places = (1 % depth, 0)
    kernel(
        [xp.asarray(one) for both in sources for one in both],
        list(there.values()),
        far[:, places[0]],
        far[:, places[1]],
        CTX.step,
    )

    expected = history[:, places[1]].copy()
    previous = history[:, places[0]] if depth > 1 else expected
    layer.update(CTX, state, drive, previous, expected)
    # The results of a division may be large.
    assert_allclose = np.testing.assert_allclose
    tolerance = {"float32": 2e-5, "float64": 1e-13}[dtype]
    assert_allclose(np.asarray(far)[:, places[1]], expected, rtol=tolerance, atol=tolerance)
    for name, values in state.items():
        assert_allclose(np.asarray(there[name]), values, rtol=tolerance, atol=tolerance)
    if depth > 1:
        assert np.array_equal(np.asarray(far)[:, 1], history[:, 1])


def test_layers_that_differ_in_numbers_alone_have_one_body() -> None:
    found = [
        traced(update_of(LCA(shape=SHAPE, tau=tau, threshold=threshold)), ["V"], 1, False, "float")
        for tau, threshold in ((3.0, 0.1), (7.0, 0.4))
    ]
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]


@pytest.mark.parametrize("layer", LAYERS, ids=[f"{one.type}{n}" for n, one in enumerate(LAYERS)])
def test_kernels_of_float32_have_no_double_in_their_arithmetic(layer: Layer) -> None:
    body, constants = traced(update_of(layer), names_of(layer), layer.buffers, False, "float")
    for line in body.text.splitlines():
        assert "double" not in line
        assert not re.search(r"\d\.\d|\de[-+]?\d", line), line
        assert not re.search(r"\b(exp|log|tanh|sqrt|fabs)\(", line), line
    assert len(constants) == len(set(re.findall(r"c\[\d+\]", body.text)))


def total(xp: Any, state: Mapping[str, Any], drive: Any, previous: Any, activity: Any) -> None:
    activity[...] = drive[0] / drive[0].sum()


def chosen(xp: Any, state: Mapping[str, Any], drive: Any, previous: Any, activity: Any) -> None:
    activity[...] = drive[0] if drive[0] > 0 else previous


def shifted(xp: Any, state: Mapping[str, Any], drive: Any, previous: Any, activity: Any) -> None:
    activity[:, 1:] = drive[0][:, :-1]


def elsewhere(xp: Any, state: Mapping[str, Any], drive: Any, previous: Any, activity: Any) -> None:
    previous[...] = drive[0]
    activity[...] = drive[0]


def silent(xp: Any, state: Mapping[str, Any], drive: Any, previous: Any, activity: Any) -> None:
    state["V"][...] = drive[0]


def mixed(xp: Any, state: Mapping[str, Any], drive: Any, previous: Any, activity: Any) -> None:
    activity[...] = drive[0] * np.float64(0.1)  # in numpy a product of float64


def by_numpy(xp: Any, state: Mapping[str, Any], drive: Any, previous: Any, activity: Any) -> None:
    activity[...] = np.maximum(drive[0], 0)


def gathered(xp: Any, state: Mapping[str, Any], drive: Any, previous: Any, activity: Any) -> None:
    activity[...] = drive[0] * xp.arange(20)


@pytest.mark.parametrize("update", [total, chosen, shifted, elsewhere, silent, mixed, by_numpy, gathered])
def test_what_is_more_than_arithmetic_is_refused(update: Any) -> None:
    with pytest.raises((Untraced, AttributeError, TypeError)):
        traced(update, ["V"], 1, False, "float")


@pytest.mark.long
@pytest.mark.skipif(nvrtc.loaded() is None, reason=nvrtc.NO_NVRTC)
@pytest.mark.parametrize("layer", LAYERS, ids=[f"{one.type}{n}" for n, one in enumerate(LAYERS)])
def test_kernels_compile_for_gpus(layer: Layer) -> None:
    for real in ("float", "double"):
        body, constants = traced(update_of(layer), names_of(layer), layer.buffers, False, real)
        terms = [Term(buffer, scaled) for buffer in range(layer.buffers) for scaled in (False, True)]
        text = source(body, terms, layer.buffers, layer.buffers + len(constants), real)
        used = nvrtc.compiled(text, 90)["units"]
        assert used.spilled == 0
        assert used.registers <= 64
