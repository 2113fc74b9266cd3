"""A run of an image with four unequal blocks of four colours, which show what is swapped or mirrored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from petabatch import simulation

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
CORNERS = np.array([[RED, GREEN], [BLUE, WHITE]], float) / 255
"""Colours of the image, top left to bottom right."""

PARAMS = """
title = "Four & <b>corners</b></script><script>stolen = 1</script>"

[run]
display = 10
displays = 2
kernel = "array"

[layers]
image = { type = "input", shape = [8, 12, 3], source = { type = "images", files = "four.png" } }
error = { type = "linear", shape = [8, 12, 3] }
V1 = { type = "lca", shape = [2, 3, 3], tau = 2.0, threshold = 0.01 }
recon = { type = "linear", shape = [8, 12, 3] }

[connections]
image_to_error = { type = "identity", pre = "image", post = "error" }
recon_to_error = { type = "identity", pre = "recon", post = "error", channel = "inh", feedback = true }
error_to_V1 = { type = "transpose", of = "dictionary", pre = "error", post = "V1" }

[connections.dictionary]
type = "conv"
pre = "V1"
post = "recon"
patch = [4, 4]
init = { type = "file", path = "w.npy" }

[probes]
energy = { type = "energy", error = "error", code = "V1", coefficient = 0.01, every = 1 }

[output]
layers = { image = {}, V1 = {}, recon = {} }
connections = { dictionary = {} }
"""


def weights() -> np.ndarray:
    """Return three features: red in the top left corner, green in the top right, blue in the lower left."""
    patches = np.zeros((3, 4, 4, 3), np.float32)
    for number, (row, column) in enumerate(((0, 0), (0, 3), (3, 0))):
        patches[number, row, column, number] = 1.0
    return patches


def four_corners(folder: Path, *settings: str) -> Path:
    """Run the network in a folder, with these overrides; return the run directory."""
    image = np.zeros((8, 12, 3), np.uint8)
    # The blocks are unequal, so that no mirrored or transposed image looks the same.
    image[:3, :4], image[:3, 4:], image[3:, :4], image[3:, 4:] = RED, GREEN, BLUE, WHITE
    Image.fromarray(image).save(folder / "four.png")
    np.save(folder / "w.npy", weights())
    (folder / "net.toml").write_text(PARAMS)
    simulation.run(
        simulation.read(folder / "net.toml", settings), folder / "out", threads=1, mpi=False, quiet=True
    )
    return folder / "out"


def corners(pixels: np.ndarray) -> np.ndarray:
    """Return the colours of a picture at a twelfth from its corners, `[2, 2, 3]`."""
    y, x = pixels.shape[0] // 12, pixels.shape[1] // 12
    return pixels[np.ix_([y, -1 - y], [x, -1 - x])]
