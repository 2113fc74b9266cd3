"""Networks in which some layers cannot be split over two ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from petabatch import params
from petabatch.connections import Conv, Sparse
from petabatch.layers import LCA, Input, Neurons
from petabatch.network.sparse_coding import sparse_coding
from petabatch.sources import ImageArray
from petabatch.spec.network import Network, Run
from petabatch.weights import L2, Gaussian, Uniform

TWO_LAYER = Path(__file__).parents[1] / "params" / "two_layer.toml"


def uneven(short: bool) -> Network:
    """Return two layers of sparse code, the second with an odd number of rows and of features."""
    rows = 7 if short else 15
    shapes = {
        "image": (8 * rows, 3), "error": (8 * rows, 3), "recon": (8 * rows, 3), "V1": (4 * rows, 128),
        "V1error": (4 * rows, 128), "V1recon": (4 * rows, 128), "V2": (rows, 65),
    }  # fmt: skip
    overrides = [f"layers.{name}.shape=[{n}, {n}, {nf}]" for name, (n, nf) in shapes.items()]
    patch = "connections.dictionary2.patch=[8, 8]"
    return params.read(TWO_LAYER, (*overrides, patch, "run.display=50")).network


def spiking(short: bool, file: Path, side: int) -> Network:
    """Return a sparse code of an image of `side` x `side` that drives spiking neurons with synapses."""
    code = LCA(shape=(side // 2, side // 2, 64), tau=20.0, threshold=1.0)
    units = (side // 4, side // 4, 4 if short else 16)
    cells = Neurons(
        shape=units, equations="dv/dt = (i - v) / 10", currents=("i",), spike="v > 1", reset="v = 0"
    )
    found = sparse_coding(
        Input(shape=(side, side, 3), source=ImageArray(file=str(file))),
        code,
        Conv(pre="V1", post="recon", patch=(8, 8), init=Gaussian(), normalize=L2()),
        run=Run(batch=2, display=50, displays=3),
    )
    size = int(np.prod(units))
    strong = Uniform(low=0.0, high=0.05)
    connections = {
        "onto": Conv(pre="V1", post="cells", patch=(4, 4), target="i", init=Gaussian(std=0.1)),
        "among": Sparse(pre="cells", post="cells", target="i", number=20 * size, delay_steps=1, init=strong),
    }
    layers = {**found.layers, "cells": cells}
    return found.model_copy(update={"layers": layers, "connections": {**found.connections, **connections}})
