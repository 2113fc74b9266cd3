"""Films in memory, of unequal lengths."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from petabatch.sources.gallery import Gallery
from petabatch.sources.view import View
from support.networks import images, lca_network

LENGTHS = (3, 5, 2, 4)


class Reels(View):
    """Films handed over in Python: a sequence of arrays `[frames, ny, nx, nf]`."""

    type: Literal["reels"] = "reels"
    data: Any

    def gallery(self) -> Gallery:
        frames = np.concatenate(self.data)
        return Gallery(
            [frames.shape[1:]] * len(frames),
            lambda number, rows, columns: frames[number, rows, columns],
            lambda number: f"frame {number}",
            [len(film) for film in self.data],
        )


def film_network(order: Any, displays: int = 6, **run: Any) -> Any:
    """Return the sparse-coding loop of two slices that show four films."""
    frames = images(len(LENGTHS), max(LENGTHS), (16, 20, 3))
    films = [film[:length] for film, length in zip(frames, LENGTHS, strict=True)]
    net = lca_network(frames[:2, :, :12, :16], displays=displays, **run)
    source = Reels(data=films, order=order)
    image = net.layers["image"].model_copy(update={"source": source})
    return net.model_copy(update={"layers": {**net.layers, "image": image}})
