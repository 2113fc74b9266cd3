"""Layers whose input and update are one kernel on an emulated GPU, and those that are called on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from petabatch.connections import Conv, Identity, Transpose
from petabatch.engine.steppers import layers as stepper
from petabatch.engine.steppers import unit_update
from petabatch.layers import LCA, Input, LeakyIntegrator, Linear
from petabatch.network.build import build
from petabatch.network.gpu_rows import way_of
from petabatch.network.plan import schedule
from petabatch.report.explain import explain
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.schedule import Every
from petabatch.variable import LAYER_DIMS, Array, Variable
from petabatch.weights import Gaussian
from support.gpu_emulation import EmulatedGpu
from support.gpu_runs import assert_agree, on_gpu
from support.networks import GivenImages, images

SHAPE, CODE = (8, 8, 2), (4, 4, 5)


def network(middle: Layer | None = None, border: Any = "zero", slices: Any = None, **run: Any) -> Network:
    """Return a code with all kinds of input, and a layer in the middle that only adds up."""
    layers = {
        "image": Input(shape=SHAPE, source=GivenImages(data=images(3, shape=SHAPE))),
        "error": Linear(shape=SHAPE),
        "code": LCA(
            shape=CODE, tau=5.0, threshold=0.05, transfer="firm", width=0.1, reset=Every(7), border=border
        ),
        "recon": Linear(shape=SHAPE, scale=0.9),
        "middle": middle or LeakyIntegrator(shape=CODE, tau=3.0),
    }
    connections = {
        "see": Identity(pre="image", post="error", strength=0.5),
        "explain": Identity(pre="recon", post="error", channel="inh", feedback=True),
        "weights": Conv(pre="code", post="recon", patch=(4, 4), init=Gaussian(std=0.3)),
        "drive": Transpose(pre="error", post="code", of="weights"),
        "more": Identity(pre="image", post="recon", strength=0.1, delay_steps=2),
        "code_middle": Identity(pre="code", post="middle"),
        "inhibit": Identity(pre="middle", post="code", channel="inh", strength=0.2, feedback=True),
    }
    made = Run(batch=3, display=10, displays=2, **run)
    return Network(run=made, layers=layers, connections=connections, slices=slices or {})


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the types of layers whose update is called on arrays of the device."""
    found: set[str] = set()
    for kind in (LCA, Linear, LeakyIntegrator):

        def update(
            self: Any, ctx: StepContext, *arrays: Any, kind: Any = kind, original: Any = kind.update
        ) -> None:
            if isinstance(arrays[-1], np.ndarray) and ctx.xp is not np:
                found.add(kind.__name__)
            original(self, ctx, *arrays)

        monkeypatch.setattr(kind, "update", update)
    return found


@pytest.mark.parametrize("border", ["zero", "mirror", 0.3])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_inputs_and_updates_are_one_kernel(border: Any, precision: str, called: set[str]) -> None:
    wanted = network(border=border, precision=precision, kernel="array")
    assert_agree(wanted, EmulatedGpu(), {"float32": 2e-5, "float64": 1e-12}[precision])
    assert not called


@pytest.mark.parametrize("key", ["layers.code.tau", "layers.code.threshold", "connections.see.strength"])
def test_slices_have_numbers_of_their_own(key: str, called: set[str]) -> None:
    assert_agree(network(slices={key: (0.2, 3.0, 3.0)}), EmulatedGpu(), 2e-5)
    assert not called


class Doubled(LeakyIntegrator):
    """Adds up in another way for one number."""

    type: Literal["doubled"] = "doubled"  # type: ignore[assignment]
    capabilities = Capabilities(graph_safe=True)
    factor: float = 1.0

    def update(self, ctx: StepContext, state: Any, drive: Any, *activities: Any) -> None:
        more = [drive[0] * self.factor] if self.factor else drive
        LeakyIntegrator.update(self, ctx, state, more, *activities)


def test_slices_that_differ_in_more_than_numbers_are_updated_apart(called: set[str]) -> None:
    slices = {"layers.middle.factor": (0.0, 0.2, 0.2), "layers.code.width": (0.0, 0.2, 0.2)}
    middle = Doubled(shape=CODE, tau=3.0)
    assert_agree(network(middle, slices=slices), EmulatedGpu(), 2e-5)
    assert called == {"LeakyIntegrator"}  # a firm threshold without a width is one with other numbers


class Summed(Layer):
    """A layer whose units depend on each other."""

    capabilities = Capabilities(graph_safe=True)
    type: Literal["summed"] = "summed"

    def variables(self) -> Sequence[Variable]:
        return (Variable("V", self.shape, LAYER_DIMS),)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        state["V"][...] = drive[0]
        activity[...] = drive[0] - drive[0].mean(axis=3, keepdims=True)


def test_an_update_that_is_more_than_arithmetic_is_called_on_arrays(called: set[str]) -> None:
    assert_agree(network(Summed(shape=CODE)), EmulatedGpu(), 2e-5)
    assert not called


class Odd(LeakyIntegrator):
    """Raises an error of its own where it is given symbols."""

    type: Literal["odd"] = "odd"  # type: ignore[assignment]
    capabilities = Capabilities(graph_safe=True)

    def update(self, ctx: StepContext, *arrays: Any) -> None:
        if not isinstance(arrays[-1], np.ndarray):
            raise KeyError("no symbols, please\nreally")
        LeakyIntegrator.update(self, ctx, *arrays)


class Sorted(LeakyIntegrator):
    """Looks at more than one unit."""

    type: Literal["sorted"] = "sorted"  # type: ignore[assignment]
    capabilities = Capabilities(graph_safe=True)

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Any, activity: Any) -> None:
        activity[...] = ctx.xp.sort(drive[0], axis=-1)


class Plain(LeakyIntegrator):
    """Does not say what it can."""

    type: Literal["plainly"] = "plainly"  # type: ignore[assignment]
    update = LeakyIntegrator.update


REASONS = {
    Odd: "it raises KeyError: 'no symbols, please",
    Sorted: "it does something else than arithmetic on units",
    Plain: "layers of type plainly are not `graph_safe`",
}


@pytest.mark.parametrize("kind", REASONS)
def test_check_says_why_an_update_is_called_on_arrays(kind: type[Layer]) -> None:
    wanted = on_gpu(network(kind(shape=CODE, tau=3.0)))
    text = " ".join(explain(schedule(build(wanted))).split())
    assert "code a kernel of what its `update` does" in text
    assert "middle its `update` on arrays, because " in text
    assert REASONS[kind] in text
    assert ("steps launched one by one, because middle" in text) == (kind is Plain)


def test_what_is_printed_is_what_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = {}

    def watched(device: Any, parts: Any, signals: Any, name: str) -> Any:
        found = made[name] = unit_update.unit_update(device, parts, signals, name)
        return found

    monkeypatch.setattr(stepper, "unit_update", watched)
    for kind in (LeakyIntegrator, *REASONS):
        wanted = network(kind(shape=CODE, tau=3.0))
        assert_agree(wanted, EmulatedGpu(), 2e-5)
        graph = build(on_gpu(wanted))
        moving = [name for name in graph.network.layers if name != "image"]
        assert {name: made[name] is None for name in moving} == {
            name: way_of(graph, name).by == "arrays" for name in moving
        }
