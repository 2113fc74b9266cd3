"""The workspace of a program: weights in the orders in which they are read, and in no other."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch.connections import Conv
from petabatch.engine.features import AllFeatures
from petabatch.engine.steppers.program import Tabulated
from petabatch.engine.steppers.program.workspace import Workspace
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.layout import PANEL
from petabatch.kernels.cpu.sizes import GROUP, LANES
from petabatch.layers import Input, Linear
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.spec.network import Network, Run
from petabatch.weights import Gaussian
from support.loops import plain
from support.networks import GivenImages, images


@pytest.mark.parametrize("features", [1, 32, 40, 64, 70])
def test_weights_are_packed_whatever_their_number(features: int) -> None:
    p = plain(6, 7, features, 5, 1, 3)
    weights = np.random.default_rng(1).normal(size=(features, p.length)).astype("f4")
    groups, panels = layout.room_for_groups(p), layout.room_for_panels(p)
    layout.pack_groups(weights, p, groups)
    layout.pack_panels(weights, panels)
    width, vectors = p.x.size * p.channels, -(-p.x.size * p.channels // LANES)
    padded = np.zeros((features, p.y.size, vectors * LANES), "f4")
    padded[:, :, :width] = weights.reshape(features, p.y.size, width)
    flat = groups.swapaxes(0, 1).reshape(features, -1)
    assert flat.shape[1] % (GROUP * LANES) == 0
    np.testing.assert_array_equal(flat[:, : padded[0].size], padded.reshape(features, -1))
    assert not flat[:, padded[0].size :].any()
    rows = panels.swapaxes(1, 2).reshape(-1, p.length)
    assert len(rows) == -(-features // PANEL) * PANEL
    np.testing.assert_array_equal(rows[:features], weights)


def test_a_connection_that_only_gathers_has_no_groups() -> None:
    fine, coarse = (8, 10, 3), (4, 5, 40)
    source = GivenImages(data=images(1, shape=fine))
    network = Network(
        run=Run(batch=1, steps=2, display=2, dt=1.0),
        layers={"image": Input(shape=fine, source=source), "seen": Linear(shape=coarse)},
        connections={"see": Conv(pre="image", post="seen", patch=(4, 4), init=Gaussian(std=0.1))},
    )
    plan = schedule(build(network))
    assert plan.method.stepper == "program"
    tables = Tabulated.of(plan, AllFeatures(plan)).tables
    held = {key.split()[0] for key in Workspace(tables).held if "connections/see" in key}
    assert held == {"scratch/panels"}
