"""PSNR of reconstructions."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Identity
from petabatch.errors import NonFiniteError
from petabatch.layers import Constant, Input, LeakyIntegrator
from petabatch.probes import PSNR
from petabatch.sources import ImageArray
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import STEP

SHAPE = (2, 2, 1)


def measured(reconstruction: np.ndarray) -> float:
    """Return the ratio of a reconstruction of an image from 0 to 1."""
    layers = {"image": np.linspace(0, 1, 4).reshape(1, *SHAPE), "recon": reconstruction}
    probe = PSNR(image="image", reconstruction="recon", every=STEP)
    return float(probe.measure(lambda name, _: layers[name], np)["psnr"][0])


def test_ratio_is_that_of_the_range_and_the_error() -> None:
    exact = np.linspace(0, 1, 4).reshape(1, *SHAPE)
    assert measured(exact + 0.1) == pytest.approx(20)
    assert measured(exact + np.inf) < -3000


@pytest.mark.parametrize("kernel", ["array", "dense"])
def test_a_run_that_diverges_ends_with_its_message(kernel: str) -> None:
    image = Input(shape=SHAPE, source=ImageArray(data=np.linspace(0, 1, 4).reshape(1, *SHAPE)))
    network = Network(
        run=Run(steps=4, kernel=kernel),
        layers={
            "image": image,
            "large": Constant(shape=SHAPE, value=3e38),
            "sum": LeakyIntegrator(shape=SHAPE),
        },
        connections={"grows": Identity(pre="large", post="sum")},
        probes={"quality": PSNR(image="image", reconstruction="sum", every=STEP)},
    )
    with pytest.raises(NonFiniteError):
        in_memory.run(network)
