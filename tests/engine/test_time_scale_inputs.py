"""Time scales start over when an image appears that their layer sees, and at no other."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Identity
from petabatch.layers import Input, KneeTimeScale, Linear
from petabatch.spec.network import LayerOutput, Network, Output
from petabatch.spec.schedule import STEP
from support.networks import GivenImages, images, lca_network


def controlled() -> Network:
    net = lca_network(images(2, 2), display=30, displays=2, learn=False)
    scale = KneeTimeScale(energy="energy", minimum=0.2, maximum=0.5, factor=0.3, growth=0.1)
    layers = {**net.layers, "V1": net.layers["V1"].model_copy(update={"time_scale": scale})}
    scales = LayerOutput(every=STEP, variables=("time_scale",))
    return net.model_copy(update={"layers": layers, "output": Output(layers={"V1": scales})})


def compared(net: Network) -> Network:
    """Return the network with another input, of a new image in each step, that is compared with `recon`."""
    shape = net.layers["recon"].shape
    source = GivenImages(data=np.random.default_rng(0).normal(size=(2, 60, *shape)))
    return net.model_copy(
        update={
            "layers": {
                **net.layers,
                "correct": Input(shape=shape, source=source, every=STEP),
                "difference": Linear(shape=shape),
            },
            "connections": {
                **net.connections,
                "recon_to_difference": Identity(pre="recon", post="difference"),
                "correct_to_difference": Identity(pre="correct", post="difference", channel="inh"),
            },
        }
    )


@pytest.mark.parametrize("kernel", ["array", "auto"])
def test_an_input_that_the_code_does_not_see_starts_no_time_scale_over(kernel: str) -> None:
    found = []
    for net in (controlled(), compared(controlled())):
        run = net.run.model_copy(update={"kernel": kernel})
        done = in_memory.run(net.model_copy(update={"run": run}))
        found.append(done.recorded["layers/V1/time_scale"])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)
    assert (found[0][30] == 0.2).all()  # a new image
    assert found[0][29].min() > 0.2
