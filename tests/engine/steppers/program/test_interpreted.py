"""Layers with an update for arrays alone: called for all slices of a call, with the bits of each alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from petabatch.connections import Conv, Identity, Sparse
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import PartError
from petabatch.layers import LCA, LeakyIntegrator, Sigmoid
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.probes import Optimality
from petabatch.spec.network import Network, Run, Until
from petabatch.spec.parts import DISPLAY, Layer, StepContext
from petabatch.spec.rows import drawn_together
from petabatch.spec.schedule import Every
from petabatch.variable import LAYER_DIMS, Array, Variable
from petabatch.weights import Uniform
from support.networks import GivenWeights, images, lca_network, simulate
from support.random_runs import on_ranks
from support.recurrent import everything, in_groups, recurrent_network
from support.row_functions import Adaptive

calls: list[tuple[int, ...]] = []
"""The slices of each update of `Arrays`."""


class Arrays(Adaptive):
    """The neurons of `Adaptive` with an update for arrays alone."""

    type: Literal["test_arrays"] = "test_arrays"  # type: ignore[assignment]

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        assert len(activity) == len(state["V"]) == len(drive[1]) == len(ctx.slices)
        assert type(ctx.slices) is tuple
        calls.append(ctx.slices)
        super().update(ctx, state, drive, previous, activity)


def network(seed: int, batch: int, **keys: Any) -> Network:
    """Return a random recurrent network with a plug-in in its loop, and connected to itself."""
    base, rng = recurrent_network(seed, batch), np.random.default_rng(seed)
    n = base.layers["x"].shape[2]
    weights = GivenWeights(data=0.3 * rng.normal(size=(1, 1, n, 1, 1, n)) / n**0.5)
    reset = {"reset": Every(4), "reset_to": [None, "x", "rate"][rng.integers(3)]} if seed % 2 else {}
    every = {"every": Every(int(rng.integers(1, 3)))}
    plug_in = Arrays(shape=(1, 1, n), **{**every, **reset, **keys})
    connections = {
        **base.connections,
        "sense": Identity(pre="x", post="plug_in", strength=0.8),
        "gate": Identity(pre="rate", post="plug_in", channel="gate", delay_steps=1),
        "around": Conv(pre="plug_in", post="plug_in", patch=(1, 1), init=weights, feedback=True),
        "back": Identity(pre="plug_in", post="x", feedback=True, strength=0.3),
    }
    layers = {**base.layers, "plug_in": plug_in}
    return base.model_copy(update={"layers": layers, "connections": connections})


def assert_equal(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        assert found[key].tobytes() == values.tobytes(), key


@settings(
    max_examples=15, deadline=None, suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)  # fmt: skip
@given(seed=st.integers(0, 2**32), batch=st.integers(2, 7), most=st.integers(2, 7), threads=st.integers(1, 2))
def test_bits_depend_on_no_group_thread_or_rank(seed: int, batch: int, most: int, threads: int) -> None:
    given = network(seed, batch)
    _, expected = in_groups(given, 1)
    _, found = in_groups(given, most, threads)
    assert_equal(found, expected)
    assert_equal(everything(*on_ranks(given, 2)), expected)


def test_an_update_has_all_slices_of_a_call() -> None:
    given = network(0, 5, every=Every(1))
    said = str(build_method(given))
    assert "; plug_in is interpreted step by step" in said
    assert "; up to 192 slices in one call" in said
    calls.clear()
    in_groups(given, 48)
    steps = given.run.length
    assert calls.count((0, 1, 2, 3, 4)) == steps
    # In steps 1, 2, 4, 8 and 16 the last slice is also updated alone.
    assert [one for one in calls if len(one) < 5] == [(4,)] * 5


def build_method(given: Network) -> Any:
    return schedule(build(given)).method


def test_slices_with_other_values_have_updates_of_their_own() -> None:
    base = network(4, 5)
    given = base.model_copy(update={"slices": {"layers.plug_in.tau": (5.0, 3.0, 5.0, 5.0, 3.0)}})
    calls.clear()
    _, found = in_groups(given, 6)
    assert {one for one in calls if len(one) > 1} == {(0, 2, 3), (1, 4)}
    assert_equal(found, in_groups(given, 1)[1])


class OwnCode(LCA):
    """A code with an update of its own."""

    type: Literal["test_own_code"] = "test_own_code"  # type: ignore[assignment]

    def update(self, ctx: StepContext, *arrays: Any) -> None:
        calls.append(ctx.slices)
        super().update(ctx, *arrays)


def test_slices_that_rest_are_left_out() -> None:
    base = lca_network(
        images(7, 2, (4, 4, 2)), features=20, patch=(4, 4), stride=4, learn=False, display=100,
        until=Until(gap=0.2, every=5),
    )  # fmt: skip
    probe = Optimality(
        image="image", reconstruction="recon", code="V1", drive="drive", coefficient=0.4, every=DISPLAY
    )
    V1 = OwnCode(**{**dict(base.layers["V1"]), "type": "test_own_code"})
    given = base.model_copy(
        update={"layers": {**base.layers, "V1": V1}, "probes": {**base.probes, "optimality": probe}}
    )
    calls.clear()
    _, found = in_groups(given, 12)
    made = sum(len(one) for one in calls if len(one) > 1)
    assert any(np.diff(one).max() > 1 for one in calls if len(one) > 1)  # they need not follow each other
    assert 0 < made <= found["recorded/probes/until/steps"].sum()
    assert_equal(found, in_groups(given, 1)[1])


class Wire(Identity):
    """A connection that compiled code does not know."""

    type: Literal["test_wire"] = "test_wire"  # type: ignore[assignment]

    @property
    def operation(self) -> Any:
        return "other"

    def deliver(self, kernels: Any, wiring: Any, activity: Array, border: Any, patches: Any) -> Array:
        return activity


def test_connections_that_are_interpreted_are_gathered_slice_by_slice() -> None:
    base = network(8, 5)
    sense = Wire(pre="x", post="plug_in", strength=0.8)
    given = base.model_copy(update={"connections": {**base.connections, "sense": sense}})
    calls.clear()
    _, found = in_groups(given, 6)
    assert (0, 1, 2, 3, 4) in calls
    assert_equal(found, in_groups(given, 1)[1])


def test_networks_of_plug_ins_alone_are_programs() -> None:
    shape = (1, 1, 6)
    layers: dict[str, Layer] = {"one": Arrays(shape=shape)}
    weights = GivenWeights(data=np.ones((1, 1, 6, 1, 1, 6)))
    around = Conv(pre="one", post="one", patch=(1, 1), init=weights, feedback=True)
    given = Network(run=Run(batch=3, steps=9, display=9), layers=layers, connections={"around": around})
    method = build_method(given)
    assert method.stepper == "program"
    assert method.slow
    _, found = in_groups(given, 3)
    array = given.model_copy(update={"run": given.run.model_copy(update={"kernel": "array"})})
    expected = simulate(array)[0].state.arrays["layers/one/V"]
    np.testing.assert_allclose(found["layers/one/V"], expected, rtol=0, atol=1e-5)


class Mean(LeakyIntegrator):
    """A layer whose slices are no slices."""

    type: Literal["test_mean"] = "test_mean"  # type: ignore[assignment]

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        activity[...] = drive[0] - 0.1 * drive[0].mean(axis=0)


class Signed(Mean):
    """A layer whose zeros have a sign where there are several slices."""

    type: Literal["test_signed"] = "test_signed"  # type: ignore[assignment]

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        activity[...] = np.float32(-0.0 if len(activity) > 1 else 0.0)


class Product(Mean):
    """A layer that multiplies all slices by one matrix."""

    type: Literal["test_product"] = "test_product"  # type: ignore[assignment]

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        matrix = np.random.default_rng(0).normal(size=(drive[0][0].size,) * 2).astype(np.float32)
        activity[...] = (drive[0].reshape(len(activity), -1) @ matrix).reshape(activity.shape)


class Apart(Product):
    """The same, each slice for itself."""

    type: Literal["test_apart"] = "test_apart"  # type: ignore[assignment]

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        matrix = np.random.default_rng(0).normal(size=(drive[0][0].size,) * 2).astype(np.float32)
        activity[...] = np.matmul(drive[0].reshape(len(activity), 1, -1), matrix).reshape(activity.shape)


@pytest.mark.parametrize("kind", [Mean, Signed, Product, Apart])
def test_an_update_that_mixes_slices_is_an_error(kind: type[Layer]) -> None:
    data = images(7, 1, (1, 1, 133))
    base = lca_network(data, patch=(1, 1), stride=1, learn=False, displays=1)
    layers = {"image": base.layers["image"], "mixed": kind(shape=(1, 1, 133))}
    see = Identity(pre="image", post="mixed")
    given = Network(run=Run(batch=7, steps=3, display=3), layers=layers, connections={"see": see})
    engine = Engine(schedule(build(given)), Serial(), 1)
    engine.start()
    if kind is Apart:
        list(drive(engine))
        return
    message = f"layers.mixed: the type {layers['mixed'].type} does not treat slices apart, in step 1"
    with pytest.raises(PartError, match=message) as caught:
        list(drive(engine))
    assert "A of slice 6 is " in str(caught.value)


def test_random_numbers_of_all_slices_are_those_of_row_functions() -> None:
    seen: dict[str, np.ndarray] = {}

    class Drawn(Adaptive):
        type: Literal["test_drawn"] = "test_drawn"  # type: ignore[assignment]
        row = staticmethod(Adaptive.row)

        def variables(self) -> Sequence[Variable]:
            return [Variable(name, self.shape, LAYER_DIMS) for name in ("V", "fatigue", *self.draws)]

    def keep(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        for i in range(A.size):
            state.noise[i], state.chance[i] = draws.noise[i], draws.chance[i]
            A[i] = 0

    Drawn.row = staticmethod(keep)  # type: ignore[assignment]
    layer = Drawn(shape=(3, 5, 40))
    given = Network(
        run=Run(batch=3, steps=4, display=4, seed=9), layers={"L": layer, "S": Sigmoid(shape=(1, 1, 1))}
    )
    arrays = simulate(given)[0].state.arrays
    ctx = StepContext(4, 1.0, (2, 0, 1), 9, layer="L")
    for name in layer.draws:
        seen[name] = drawn_together(layer, ctx, name)
        assert seen[name].tobytes() == arrays[f"layers/L/{name}"][[2, 0, 1]].tobytes()


class Bounded(Adaptive):
    """Neurons that change what they are given, and raise an error where V is beyond a bound."""

    type: Literal["test_bounded"] = "test_bounded"  # type: ignore[assignment]
    bound: float = np.inf

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        drive[0] *= 0.5
        super().update(ctx, state, drive, previous, activity)
        if abs(state["V"]).max() > self.bound:
            raise ValueError("beyond the bound")


def with_delays(batch: int, kernel: str = "auto", bound: float = np.inf) -> Network:
    """Return a network with plug-ins that see spikes which are on their way for some steps."""
    base = network(8, batch)
    plug_in = Bounded(shape=base.layers["plug_in"].shape, bound=bound)
    connections = {
        **base.connections,
        "sense": Wire(pre="x", post="plug_in", strength=0.8),
        "late": Sparse(
            pre="x",
            post="plug_in",
            number=9,
            delays=Uniform(low=1.0, high=5.0),
            init=Uniform(low=0.5, high=1.0),
        ),
    }
    layers = {**base.layers, "plug_in": plug_in}
    run = base.run.model_copy(update={"kernel": kernel})
    return base.model_copy(update={"layers": layers, "connections": connections, "run": run})


def test_what_is_on_its_way_arrives_once_whatever_is_updated_again() -> None:
    _, found = in_groups(with_delays(5), 6)
    assert abs(found["connections/late/pending"]).max() > 0
    assert_equal(found, in_groups(with_delays(5), 1)[1])


def test_slices_go_on_with_the_same_bits_where_the_update_of_another_raises() -> None:
    _, sound = in_groups(with_delays(5), 6)
    bound = 0.7 * float(abs(sound["layers/plug_in/V"]).max())
    engine, found = in_groups(with_delays(5, bound=bound), 6, tolerant=True)
    assert {number: one.step for number, one in engine.failures.items()} == {2: 13, 4: 14}  # of 18
    assert all("beyond the bound" in one.why for one in engine.failures.values())
    others = [number for number in range(5) if number not in engine.failures]
    for key, values in sound.items():
        mine = found[key]
        if key.startswith("layers/"):
            assert mine[others].tobytes() == values[others].tobytes(), key
    alone = in_groups(with_delays(5, bound=bound), 1, tolerant=True)[0]
    assert alone.failures == engine.failures


class Company(Adaptive):
    """Neurons that raise an error where there are others, or none."""

    type: Literal["test_company"] = "test_company"  # type: ignore[assignment]
    alone: bool = False

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        if (len(ctx.slices) == 1) == self.alone:
            raise ValueError("bad company")
        super().update(ctx, state, drive, previous, activity)


@pytest.mark.parametrize("tolerant", [False, True])
@pytest.mark.parametrize("alone", [False, True])
def test_an_error_of_slices_only_with_others_or_only_alone_ends_the_run(alone: bool, tolerant: bool) -> None:
    base = network(8, 5)
    layers = {**base.layers, "plug_in": Company(shape=base.layers["plug_in"].shape, alone=alone)}
    with pytest.raises(PartError, match="bad company"):
        in_groups(base.model_copy(update={"layers": layers}), 6, tolerant=tolerant)
