"""What `petabatch check` prints of a plan."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from petabatch.layers import Constant, LeakyIntegrator, Neurons
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.report import explain
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.schedule import DISPLAY, NEVER, Every
from support.networks import images, lca_network


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 FLOP"),
        (999, "999 FLOP"),
        (5120, "5.1 kFLOP"),
        (25.2e6, "25.2 MFLOP"),
        (24.16e12, "24.2 TFLOP"),
        (3e18, "3,000.0 PFLOP"),
    ],
)
def test_operations_are_counted_in_units_that_suit(count: float, text: str) -> None:
    assert explain._flop(count) == text


@pytest.mark.parametrize(
    ("every", "offset", "text"),
    [
        (Every(1), 0, ""),
        (Every(5), 2, "  updated every 5 steps, offset 2"),
        (DISPLAY, 0, "  updated every display"),
        (NEVER, 0, "  never updated"),
    ],
)
def test_layers_that_skip_steps_are_named_in_aligned_columns(every: Every, offset: int, text: str) -> None:
    layer = LeakyIntegrator(shape=(1, 1, 2), every=every, offset=offset)
    net = Network(run=Run(display=10, displays=1), layers={"one": Constant(shape=(1, 1, 2)), "late": layer})
    heading, *rows = explain.summary(schedule(build(net))).splitlines()[:3]
    place = heading.index("shape")
    assert sorted(row[place:] for row in rows) == ["[1, 1, 2]", f"[1, 1, 2]{text}"]


def test_choices_beside_the_method_are_named() -> None:
    """Of the CPU; those of GPUs are in `tests/engine/gpu/test_unit_updates.py`."""

    def said(**run: Any) -> str:
        layers = {
            "leaky": LeakyIntegrator(shape=(2, 2, 3)),
            "noise": Interpreted(shape=(2, 2, 3)),
            "cells": Neurons(shape=(2, 2, 3), equations="dv/dt = -v / 10"),
        }
        plan = schedule(build(Network(run=Run(steps=10, batch=2, **run), layers=layers)))
        return " ".join(explain.explain(plan).split())

    found = said()
    assert "choices leaky the compiled rule" in found
    assert "noise its `update` on arrays, because layers of type interpreted have no compiled rule" in found
    assert "cells its row function, in the program" in found
    assert "calls up to " in found
    found = said(kernel="array")
    assert "leaky its `update` on arrays noise" in found
    assert "one slice in a call of a thread" in found


class Interpreted(Layer):
    """A layer without a compiled rule."""

    type: Literal["interpreted"] = "interpreted"

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Any, activity: Any) -> None:
        activity[...] = 0


def test_float64_says_what_it_costs() -> None:
    def said(shape: tuple[int, int, int] = (8, 8, 3), features: int = 12, **run: Any) -> str:
        network = lca_network(images(2, 1, shape), features, (8, 8), display=400, **run)
        return " ".join(explain.summary(schedule(build(network))).split())

    text = "precision float64: arrays take twice the memory of float32"
    assert text not in said()
    assert f"{text} memory" in said(precision="float64", kernel="array")
    compiled = f"{text}, compiled steps 1.3 to 2.5 times the time"
    assert f"{compiled} memory" in said(precision="float64")
    assert f"{compiled}; V1: float32 computes few units memory" in said((32, 32, 3), 64, precision="float64")
