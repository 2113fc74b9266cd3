"""A network that looks beyond the edge of its image."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.connections import Clone, Conv, Pool, Transpose
from petabatch.layers import Input, Linear
from petabatch.learning import Hebbian
from petabatch.sources import ImageArray
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run
from petabatch.spec.schedule import Every
from petabatch.weights import Gaussian

INSIDE = np.random.default_rng(0).normal(size=(4, 8, 12, 2)).astype(np.float32)


MIRRORED = np.pad(INSIDE, ((0, 0), (6, 6), (6, 6), (0, 0)), mode="symmetric")


BELOW = (4, 6, 3)


def network(border: Any, data: np.ndarray, every: str = "display", **view: Any) -> Network:
    """Return an image that is seen through connections of every geometry, with delays, and learned from."""
    view = {"crop": "center", **view}
    image = Input(shape=(8, 12, 2), border=border, source=ImageArray(data=data, **view), every=every)
    shapes = {
        "small": BELOW,
        "same": (8, 12, 3),
        "large": (16, 24, 1),
        "pooled": (4, 6, 2),
        "back": (8, 12, 2),
    }
    learn = Hebbian(rate=0.1, average="sum")
    mean = Hebbian(rate=0.1, average="active")
    conv = {"pre": "image", "init": Gaussian(std=0.1)}
    return Network(
        run=Run(batch=2, display=3, displays=4, kernel="array"),  # compiled borders round otherwise
        layers={"image": image, **{name: Linear(shape=shape) for name, shape in shapes.items()}},
        connections={
            "to_small": Conv(post="small", patch=(3, 3), learn=mean, **conv),
            "to_same": Conv(post="same", patch=(5, 3), learn=learn, **conv),
            "to_large": Conv(post="large", patch=(6, 8), delay_steps=2, learn=learn, **conv),
            "again": Clone(pre="image", post="small", of="to_small", delay_steps=1, error="small"),
            "to_pooled": Pool(pre="image", post="pooled", window=(3, 5), method="sum"),
            "from_small": Conv(pre="small", post="back", patch=(4, 6), init=Gaussian()),
            "transposed": Transpose(pre="image", post="small", of="from_small"),
        },
        output=Output(
            layers={name: LayerOutput(every=Every(1)) for name in ("image", *shapes)},
            connections={name: ConnectionOutput() for name in ("to_small", "to_same", "to_large")},
        ),
    )
