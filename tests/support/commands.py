"""A small params file, running it as a user does, and what it leaves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from petabatch import simulation

BIN = Path(sys.executable).parent


Command = Callable[..., "subprocess.CompletedProcess[str]"]


SMALL = """
[run]
batch = 3
display = 10
displays = 6

[layers.image]
type = "input"
shape = [12, 12, 3]
source = { type = "array", file = "images.npy" }

[layers.error]
type = "linear"
shape = [12, 12, 3]

[layers.V1]
type = "lca"
shape = [6, 6, 8]
tau = 10.0
threshold = 0.3

[layers.recon]
type = "linear"
shape = [12, 12, 3]

[connections.image_to_error]
type = "identity"
pre = "image"
post = "error"

[connections.recon_to_error]
type = "identity"
pre = "recon"
post = "error"
channel = "inh"
feedback = true

[connections.dictionary]
type = "conv"
pre = "V1"
post = "recon"
patch = [4, 4]
init = { type = "gaussian" }
normalize = { type = "l2" }
learn = { type = "hebbian", error = "error", rate = 0.5, momentum = 0.5 }

[connections.drive]
type = "transpose"
of = "dictionary"
pre = "error"
post = "V1"

[probes.energy]
type = "energy"
error = "error"
code = "V1"
coefficient = 0.3
every = 5

[output]
flush = "2 displays"

[output.layers]
V1 = { variables = ["A", "V"] }
recon = { every = "2 displays" }

[output.connections]
dictionary = {}

[checkpoint]
every = "1 display"
"""


def write_small(folder: Path) -> Path:
    """Write the params file, with its images, to a folder."""
    images = np.random.default_rng(3).normal(size=(7, 12, 12, 3))
    np.save(folder / "images.npy", (images + np.roll(images, 1, axis=2)).astype(np.float32))
    file = folder / "small.toml"
    file.write_text(SMALL)
    return file


def alone(file: Path, out: str, *settings: str, threads: int = 1) -> Path:
    """Run a params file in this process, without the seconds a fresh one takes to begin."""
    path = file.parent / out
    simulation.run(simulation.read(file, settings), path, mpi=False, quiet=True, threads=threads)
    return path


def set_all(*settings: str) -> list[str]:
    """Return the flags that the command line wants for these settings."""
    return [flag for setting in settings for flag in ("-s", setting)]


def datasets(path: Path) -> dict[str, np.ndarray]:
    """Return every dataset of an HDF5 file, by name."""
    found: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: item[()]} if isinstance(item, h5py.Dataset) else {})
        )
    return found


def contents(path: Path) -> dict[str, bytes]:
    """Return every dataset of an HDF5 file as bytes, by name."""
    return {name: values.tobytes() for name, values in datasets(path).items()}
