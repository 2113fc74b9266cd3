"""Learning rules against independent transcriptions of their formulas, and PetaVision's momentum."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.learning import Adam, Hebbian, Oja, RateDecay
from petabatch.spec.weights import Learning
from petabatch.variable import Variable
from support import petavision_network as openpv
from support.networks import images, lca_network, simulate

SHAPE = (1, 1, 1, 3, 2, 2, 1)
WEIGHTS = Variable(
    "weights", SHAPE[1:], ("ky", "kx", "pre_feature", "py", "px", "post_feature"), per="network"
)
RNG = np.random.default_rng(0)
START = RNG.normal(size=SHAPE)
PRODUCTS = RNG.normal(size=(8, *SHAPE))
COUNTS = RNG.integers(0, 4, size=(8, *SHAPE)).astype(float)


def updated(rule: Learning, updates: int = 8) -> list[np.ndarray]:
    """Return the weights after each update, in float64."""
    state = {v.name: np.full((1, *v.shape), v.initial) for v in rule.variables(WEIGHTS)}
    weights, found = START.copy(), []
    for k in range(updates):
        rule.change(weights, PRODUCTS[k], COUNTS[k] if rule.counted else None, state, k, 2, np)
        found.append(weights.copy())
    return found


def averages() -> list[np.ndarray]:
    return [np.where(c > 0, p / np.maximum(c, 1), 0) for p, c in zip(PRODUCTS, COUNTS, strict=True)]


def golden_params(**params: Any) -> dict[str, Any]:
    return {"nx": 4, "ny": 4, "stride": 2, "nfeat": 3, "patch": 2, "nfin": 1, "plastic": True, **params}


def mapped(**params: Any) -> Hebbian:
    net = openpv.network(golden_params(**params), np.zeros((3, 2, 2, 1)), input=np.zeros((1, 1, 4, 4, 1)))
    rule = net.connections["V1ToError"].learn  # type: ignore[attr-defined]
    assert isinstance(rule, Hebbian)
    return rule


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("immediate", [True, False])
@pytest.mark.parametrize(
    ("method", "tau"), [("viscosity", 5.0), ("viscosity", 0.0), ("simple", 0.6), ("alex", 0.7)]
)
def test_the_originals_momentum(method: str, tau: float, immediate: bool, legacy: bool) -> None:
    """`MomentumUpdater.cpp:292-349`, with the rate decaying after updates 1, 4, 7 (`HebbianUpdater.cpp`)."""
    rate, decay, interval, factor = 0.8, 0.05, 2, 0.5
    rule = mapped(
        method=method, tauConn=tau, decay=decay, dWMax=rate, immediate=immediate, useMomentumTau=legacy,
        dWMaxDecayInterval=interval, dWMaxDecayFactor=factor,
    )  # fmt: skip
    f = (math.exp(-1 / tau) if tau else 0.0) if method == "viscosity" else tau
    weights, before, pending, counter, expected = START.copy(), 0.0, 0.0, 0, []
    for average in averages():
        fresh = rate * average
        dw = fresh if immediate else pending
        pending = fresh
        dw = (1 if legacy else 1 - f) * dw + f * before - decay * (rate if method == "alex" else 1) * weights
        before = dw
        weights = weights + dw
        expected.append(weights)
        counter -= 1
        if counter < 0:
            counter, rate = interval, rate * (1 - factor)
    np.testing.assert_allclose(updated(rule), expected, rtol=1e-12, atol=1e-12)


def test_a_plain_connection_knows_no_momentum() -> None:
    rule = mapped(conntype="HyPerConn", method="simple", tauConn=0.6, decay=0.1)
    assert (rule.momentum, rule.decay) == (0, 0)


def test_sums_are_not_averaged() -> None:
    rule = mapped(normalizeDw=False, tauConn=0.0, dWMax=0.5)
    np.testing.assert_allclose(updated(rule, 1)[0], START + 0.5 * PRODUCTS[0], rtol=1e-12)
    rule = Hebbian(rate=0.5, average="slices")
    np.testing.assert_allclose(updated(rule, 1)[0], START + 0.25 * PRODUCTS[0], rtol=1e-12)


def test_rate_decay_without_petavisions_phase() -> None:
    rule = Hebbian(rate=1.0, rate_decay=RateDecay(every=3, fraction=0.5))
    assert [rule.rate_at(k) for k in range(7)] == [1, 1, 1, 0.5, 0.5, 0.5, 0.25]


def test_clip_bounds_each_change() -> None:
    steps = np.diff([START, *updated(Hebbian(rate=10.0, clip=0.1))], axis=0)
    assert np.abs(steps).max() == pytest.approx(0.1)


def test_adam_follows_its_paper() -> None:
    rule = Adam(rate=0.1, beta1=0.8, beta2=0.9)
    m = v = np.zeros(SHAPE)
    weights, expected = START.copy(), []
    for t, g in enumerate(averages(), start=1):
        m, v = 0.8 * m + 0.2 * g, 0.9 * v + 0.1 * g**2
        weights = weights + 0.1 * (m / (1 - 0.8**t)) / (np.sqrt(v / (1 - 0.9**t)) + 1e-8)
        expected.append(weights)
    np.testing.assert_allclose(updated(rule), expected, rtol=1e-12)


def learned(rule: Learning, normalize: bool = True, displays: int = 6) -> in_memory.Result:
    network = lca_network(images(2, 1), displays=displays, momentum=0.0)
    changed = {"learn": rule} if normalize else {"learn": rule, "normalize": None}
    conv = network.connections["dictionary"].model_copy(update=changed)
    network = network.model_copy(update={"connections": {**network.connections, "dictionary": conv}})
    return in_memory.run(network, [0, 20, 40])


@pytest.mark.parametrize(
    "rule", [Adam(error="error", rate=0.02), Hebbian(error="error", delayed=True, rate=0.3)]
)
def test_learning_rules_lower_the_energy_of_a_network(rule: Learning) -> None:
    energy = learned(rule).recorded["probes/energy/total"].mean(axis=1)
    assert energy[-1] < 0.97 * energy[19]


def test_delayed_learning_changes_nothing_at_its_first_update() -> None:
    weights = learned(Hebbian(error="error", delayed=True, rate=0.3)).states["connections/dictionary/weights"]
    np.testing.assert_allclose(weights[1], weights[0], atol=1e-7)
    assert np.abs(weights[2] - weights[1]).max() > 1e-3


def test_oja_sums_activity_times_input_less_its_square_times_weights() -> None:
    done = learned(Oja(input="image", rate=0.1), normalize=False)
    weights = done.states["connections/dictionary/weights"][:, 0, 0, 0].astype(float)
    code, image = done.states["layers/V1/A"][1].astype(float), done.states["layers/image/A"][1].astype(float)
    # Patches of 6 x 6 pixels at stride 2 begin two pixels before their unit's first.
    padded = np.pad(image, ((0, 0), (2, 2), (2, 2), (0, 0)))
    inside = np.pad(np.ones_like(image), ((0, 0), (2, 2), (2, 2), (0, 0)))
    expected = weights[0].copy()
    for y in range(code.shape[1]):
        for x in range(code.shape[2]):
            rows, cols = slice(2 * y, 2 * y + 6), slice(2 * x, 2 * x + 6)
            for b in range(2):
                a = code[b, y, x][:, None, None, None]
                present = inside[b, rows, cols]
                expected += 0.05 * (a * padded[b, rows, cols] - a**2 * present * weights[0])
    np.testing.assert_allclose(weights[1], expected, atol=1e-5)


@pytest.mark.parametrize("offset", [-1, 0, 1, 7])
def test_updates_come_offset_steps_after_the_schedule(offset: int) -> None:
    network = lca_network(images(1, 1), displays=2, momentum=0.0)
    conv = network.connections["dictionary"]
    conv = conv.model_copy(update={"learn": Hebbian(error="error", rate=0.3, offset=offset)})
    # Active from the start, so that an update at the first step has something to learn.
    code = network.layers["V1"].model_copy(update={"initial": 1.0})
    changes = {
        "layers": {**network.layers, "V1": code},
        "connections": {**network.connections, "dictionary": conv},
    }
    network = network.model_copy(update=changes)
    weights = in_memory.run(network, range(41)).states["connections/dictionary/weights"]
    changed = [step for step in range(1, 41) if (weights[step] != weights[step - 1]).any()]
    assert changed == [step for step in range(1, 41) if (step - offset) % 20 == 0]


@pytest.mark.parametrize("mode", ["shared", "extra_shared"])
def test_steps_read_the_weights_that_were_learned(mode: str) -> None:
    """Compiled steps have them in another order, and note when they have changed."""
    learned, reference = (
        simulate(lca_network(images(1), mode=mode, kernel=kernel))[1] for kernel in ("dense", "array")
    )
    for path, values in reference.items():
        np.testing.assert_allclose(learned[path], values, rtol=1e-3, atol=1e-4, err_msg=path)


def test_products_of_several_updates_are_averaged_into_one_change() -> None:
    """Each third update changes the weights, by the mean over the active units of all three."""
    found = updated(Hebbian(rate=0.5, accumulate=3))
    want = START
    for k in range(8):
        if k % 3 == 2:
            product, counts = PRODUCTS[k - 2 : k + 1].sum(axis=0), COUNTS[k - 2 : k + 1].sum(axis=0)
            want = want + 0.5 * np.where(counts > 0, product / np.maximum(counts, 1), 0)
        np.testing.assert_allclose(found[k], want, rtol=1e-12)
