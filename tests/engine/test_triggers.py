"""When layers update, restart and are measured: on a schedule of their own, as the original's triggers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petabatch import in_memory
from petabatch.connections import Identity
from petabatch.engine.engine import Engine
from petabatch.errors import ParamsError
from petabatch.layers import (
    LCA,
    ConductanceLIF,
    Constant,
    HeavyBall,
    Input,
    LeakyIntegrator,
    Linear,
    LogTimeScale,
    MomentumLCA,
)
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.probes import L0, L1, L2, Energy
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import Layer
from support import petavision_network as openpv
from support.networks import GivenImages, images, lca_network, simulate

SHAPE = (2, 2, 1)


def ramp(steps: int = 30) -> GivenImages:
    """Return a source whose item p is p + 1 everywhere."""
    return GivenImages(
        data=np.ones((1, steps, *SHAPE), np.float32) * np.arange(1, steps + 1)[:, None, None, None]
    )


def trace(display: int = 1, steps: int = 24, delay: int = 0, **late: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the activities `[steps]` of `late`, fed by an input of these displays, and of what it feeds."""
    network = Network(
        run=Run(steps=steps, display=display),
        layers={
            "image": Input(shape=SHAPE, source=ramp()),
            "late": Linear(shape=SHAPE, **late),
            "after": Linear(shape=SHAPE),
        },
        connections={
            "in": Identity(pre="image", post="late"),
            "out": Identity(pre="late", post="after", delay_steps=delay),
        },
        output=Output(layers={name: LayerOutput(every=1) for name in ("late", "after")}),
    )
    _, found = simulate(network)
    return tuple(found[f"layers/{name}/A"][:, 0, 0, 0, 0] for name in ("late", "after"))  # type: ignore[return-value]


@settings(deadline=None, max_examples=25)
@given(period=st.integers(1, 9), offset=st.integers(-9, 9), delay=st.integers(0, 3))
def test_a_layer_updates_on_its_schedule_and_stands_in_between(period: int, offset: int, delay: int) -> None:
    late, after = trace(every=period, offset=offset, delay=delay)
    expected = np.zeros(25)
    for step in range(1, 25):
        due = (step - 1 - offset) % period == 0
        expected[step] = step if due else expected[step - 1]
    np.testing.assert_array_equal(late, expected[1:])
    delayed = [expected[max(0, step - delay)] for step in range(1, 25)]
    np.testing.assert_array_equal(after, delayed)


def test_an_offset_of_minus_one_is_the_last_step_of_each_display() -> None:
    first, _ = trace(display=4, every="display")
    last, _ = trace(display=4, every="display", offset=-1)
    np.testing.assert_array_equal(first[:8], [1, 1, 1, 1, 2, 2, 2, 2])
    np.testing.assert_array_equal(last[:9], [0, 0, 0, 1, 1, 1, 1, 2, 2])


@pytest.mark.parametrize("delay", [1, 2])
def test_a_new_image_passes_a_delayed_connection(delay: int) -> None:
    network = Network(
        run=Run(display=3, displays=3),
        layers={"image": Input(shape=SHAPE, source=ramp()), "late": Linear(shape=SHAPE)},
        connections={"in": Identity(pre="image", post="late", delay_steps=delay)},
        output=Output(layers={"late": LayerOutput(every=1)}),
    )
    _, found = simulate(network)
    shown = np.repeat([1, 2, 3], 3)
    np.testing.assert_array_equal(found["layers/late/A"][delay:, 0, 0, 0, 0], shown[: 9 - delay])


def test_an_input_with_an_offset_changes_that_many_steps_later() -> None:
    network = Network(
        run=Run(display=3, steps=8),
        layers={"image": Input(shape=SHAPE, source=ramp(), offset=2)},
        output=Output(layers={"image": LayerOutput(every=1)}),
    )
    _, found = simulate(network)
    np.testing.assert_array_equal(found["layers/image/A"][:, 0, 0, 0, 0], [1, 1, 1, 1, 1, 2, 2, 2])


@pytest.mark.parametrize("source", ["slow", "spikes"])
@pytest.mark.parametrize("kind", [LCA, HeavyBall])
def test_a_layer_is_reset_to_the_potential_of_another_or_to_its_activity(
    kind: type[LCA], source: str
) -> None:
    network = lca_network(images(1, 2), display=10, displays=2, learn=False)
    shape = network.layers["V1"].shape
    code = kind(shape=shape, tau=20.0, threshold=0.4, reset="display", offset=-1, reset_to=source)
    others = {
        "slow": LCA(shape=shape, tau=20.0, threshold=0.4, initial=0.7),  # V falls from 0.7, A = V - 0.4
        "spikes": LeakyIntegrator(shape=shape, tau=3.0),  # no V
        "one": Constant(shape=shape, value=1.0),
    }
    network = network.model_copy(
        update={
            "layers": {**network.layers, "V1": code, **others},
            "connections": {**network.connections, "one_to_spikes": Identity(pre="one", post="spikes")},
        }
    )
    done = in_memory.run(network, [9, 10]).states
    start = done["layers/slow/V" if source == "slow" else "layers/spikes/A"][1]
    assert start.min() > 0.01
    # One step from there: V = e V + (1 - e)(drive + A of the step before).
    before, e = done["layers/V1/A"][0], np.float32(np.exp(-1 / 20))
    expected = e * start + (1 - e) * (_drive(network, done["layers/error/A"][1]) + before)
    np.testing.assert_allclose(done["layers/V1/V"][1], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "moved"),
    [
        (LCA(shape=SHAPE, time_scale=LogTimeScale(energy="energy")), {"V"}),
        (MomentumLCA(shape=SHAPE), {"V"}),
        (ConductanceLIF(shape=SHAPE), {"V"}),
        (HeavyBall(shape=SHAPE), {"V", "V_before"}),  # it starts from the other potential at rest
    ],
    ids=lambda value: getattr(value, "type", ""),
)
def test_the_potential_of_another_layer_replaces_nothing_but_the_potential(
    layer: Layer, moved: set[str]
) -> None:
    state = {variable.name: np.full((2, *variable.shape), 7.0) for variable in layer.variables()}
    layer.restart(state, np.full((2, *SHAPE), 0.5))
    assert {name for name, values in state.items() if np.all(values == 0.5)} == moved
    assert all(np.all(state[name] == 7) for name in state.keys() - moved)
    layer.restart(state, None)
    for variable in layer.variables():
        assert np.all(state[variable.name] == variable.initial)


@pytest.mark.parametrize(("offset", "due"), [(0, [1, 6, 11]), (1, [5, 10]), (2, [4, 9])])
def test_the_originals_triggers_say_when_its_layer_updates(offset: int, due: list[int]) -> None:
    given = {"nx": 8, "ny": 8, "patch": 4, "nfeat": 4, "D": 5, "nsteps": 12, "normMethod": "none"}
    keys = {"triggerLayerName": "Input", "triggerOffset": float(offset)}
    weights = np.random.default_rng(0).normal(size=(4, 4, 4, 3))
    shown = images(1, 3, (8, 8, 3)).swapaxes(0, 1)
    done = openpv.simulate(openpv.network({**given, **keys}, weights, shown), range(13))
    moved = np.abs(np.diff(done["V1_V"], axis=0)).max(axis=(1, 2, 3, 4)) > 0
    assert (np.flatnonzero(moved) + 1).tolist() == due
    keys |= {"triggerBehavior": "resetStateOnTrigger", "triggerResetLayerName": "V1"}
    layer = openpv.network({**given, **keys}, weights, shown).layers["V1"]
    assert [step for step in range(1, 13) if layer.resets(step, 5)] == due
    assert layer.reset_to == "V1"
    assert all(layer.due(step, 5) for step in range(1, 13))


def _drive(network: Network, error: np.ndarray) -> np.ndarray:
    """Return what the transposed dictionary makes of an error, `[lanes, ny, nx, nf]`."""
    engine = Engine(schedule(build(network)), Serial(), 1)
    engine.start()
    return np.asarray(engine.lanes[0].deliveries.through("drive", error))


def test_what_cannot_be_reset_is_an_error() -> None:
    network = lca_network(images(1))
    layers = {
        **network.layers,
        "recon": Linear(shape=(12, 16, 3), reset="display"),
        "V1": LCA(shape=(6, 8, 12), reset="display", reset_to="error"),
        "V2": LCA(shape=(6, 8, 12), reset="display", reset_to="V3"),
        "V4": LCA(shape=(6, 8, 12), reset_to="V1"),
    }
    with pytest.raises(ParamsError) as caught:
        build(network.model_copy(update={"layers": layers}))
    assert {problem.key for problem in caught.value.problems} == {
        "layers.recon.reset",
        "layers.V1.reset_to",
        "layers.V2.reset_to",
        "layers.V4.reset_to",
    }


@pytest.mark.parametrize(
    ("offset", "steps"), [(0, [5, 10, 15, 20]), (1, [1, 6, 11, 16]), (-2, [3, 8, 13, 18])]
)
def test_a_probe_measures_on_its_schedule(offset: int, steps: list[int]) -> None:
    network = lca_network(images(2), display=5, learn=False)
    each = Energy(error="error", code="V1", coefficient=0.4)
    some = each.model_copy(update={"every": network.output.layers["V1"].every, "offset": offset})
    done = in_memory.run(network.model_copy(update={"probes": {"each": each, "some": some}}))
    assert done.steps["probes/some/total"].tolist() == steps
    np.testing.assert_array_equal(
        done.recorded["probes/some/total"], done.recorded["probes/each/total"][np.array(steps) - 1]
    )


@pytest.mark.parametrize("features", [1, 3])
def test_masked_norms_count_only_where_the_mask_is_not_zero(features: int) -> None:
    mask = np.zeros((2, 1, 12, 16, features), np.float32)
    mask[..., 5:, :] = np.random.default_rng(0).integers(-1, 2, (2, 1, 12, 11, features))
    network = lca_network(images(2, 1), display=10, displays=1, learn=False)
    probes = {
        "l2": L2(layer="error", mask="mask"),
        "l1": L1(layer="error", mask="mask"),
        "l0": L0(layer="error", mask="mask", above=0.3),
    }
    shown = Input(shape=(12, 16, features), source=GivenImages(data=mask))
    layers = {**network.layers, "mask": shown}
    done = in_memory.run(network.model_copy(update={"probes": probes, "layers": layers}), [10])
    error, counts = (
        done.states["layers/error/A"][0].astype(float),
        np.broadcast_to(mask[:, 0] != 0, (2, 12, 16, 3)),
    )
    kept, axes = np.where(counts, error, 0), (1, 2, 3)
    expected = {
        "l2/squares": (kept**2).sum(axes),
        "l1/sum": np.abs(kept).sum(axes),
        "l0/active": (np.abs(kept) > 0.3).sum(axes),
        "l0/fraction": (np.abs(kept) > 0.3).sum(axes) / counts.sum(axes),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(done.recorded[f"probes/{name}"][-1], values, rtol=1e-6, err_msg=name)


def test_a_mask_of_another_shape_is_an_error() -> None:
    network = lca_network(images(1))
    probes = {"norm": L1(layer="error", mask="V1"), "lost": L1(layer="error", mask="nowhere")}
    with pytest.raises(ParamsError) as caught:
        build(network.model_copy(update={"probes": probes}))
    assert {problem.key for problem in caught.value.problems} == {"probes.norm", "probes.lost"}
