"""Every command that describes, measures or looks at a network, on each demo and on networks of all kinds."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import pytest

import petabatch as package
from petabatch.connections import Conv, Identity
from petabatch.errors import InputError, NonFiniteError, ParamsError
from petabatch.layers import Input, LeakyIntegrator
from petabatch.sources import Noise
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.schedule import Every
from petabatch.weights import Uniform
from support.commands import Command, set_all
from support.random_networks.drawing import Drawing
from support.random_networks.repairing import repaired
from support.random_networks.runs import run, with_run

DEMOS = [
    file
    for file in sorted((Path(__file__).parents[2] / "demos").glob("*/*.toml"))
    if "runs/demos/" not in file.read_text()  # what their demo.py makes
]
TESTS = str(Path(__file__).parents[1])
SLICES = (1, 49, 64)
"""Alone, one more than a call has of small slices, and more."""
STEPS = 200
"""Of a demo, at most: what takes its commands long is not that it has many."""


def takes(petabatch: Command, file: Path, *settings: str) -> None:
    """Assert that no command fails on a network."""
    flags = set_all(*settings)
    for words in (
        ["check", file, "--explain", "--allow-code", *flags],
        ["bench", file, "--steps", 3, "--threads", 2, *flags],
        ["run", file, "--out", "run", "--threads", 2, "-q", *flags],
        ["info", "run"],
        ["report", "run"],
        ["plot", "--list", "run"],
    ):
        done = petabatch(*words)
        assert done.returncode == 0, f"{words}\n{done.stderr}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("file", DEMOS, ids=lambda file: file.parent.name)
def test_every_command_takes_a_demo(file: Path, petabatch: Command, tmp_path: Path) -> None:
    length = min(package.load(file).network.run.display, STEPS)
    takes(petabatch, file, f"run.display={length}", "run.displays=2")


@pytest.mark.parametrize("slices", [pytest.param(n, marks=pytest.mark.long) for n in SLICES[:-1]] + [64])
def test_every_command_takes_small_slices(slices: int, petabatch: Command, tmp_path: Path) -> None:
    network = Network(
        run=Run(batch=slices, display=STEPS, displays=1),
        layers={
            "image": Input(shape=(1, 1, 64), source=Noise()),
            "units": LeakyIntegrator(shape=(1, 1, 64), tau=20.0),
        },
        connections={
            "see": Identity(pre="image", post="units"),
            "recurrent": Conv(
                pre="units", post="units", patch=(1, 1), feedback=True, strength=0.01, init=Uniform()
            ),
        },
        output=Output(layers={"units": LayerOutput(every=Every(50))}),
    )
    takes(petabatch, in_python(network, tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("slices", SLICES)
def test_every_command_takes_random_networks(
    slices: int, seed: int, petabatch: Command, tmp_path: Path
) -> None:
    takes(petabatch, in_python(random_network(100 * seed, slices, tmp_path), tmp_path))


def random_network(seed: int, slices: int, folder: Path) -> Network:
    """Return a random network that runs to its end, the first from a seed on."""
    with warnings.catch_warnings(action="ignore"):
        for number in range(seed, seed + 100):
            try:
                drawing = Drawing(number, folder)
                drawing.batch = slices
                network = repaired(drawing.network(), lambda *told: None)
                if network.sweep is None:
                    run(with_run(network, kernel="array"), stops=())
                    return network
            except (InputError, NonFiniteError, ParamsError):
                continue
    raise AssertionError("no network has been drawn")


def in_python(network: Network, folder: Path) -> Path:
    """Return a Python params file that has a network as it is."""
    (folder / "network.pickle").write_bytes(pickle.dumps(network))
    file = folder / "network.py"
    file.write_text(
        f"import pickle, sys\nsys.path.insert(0, {TESTS!r})\n"
        f"import support.random_networks.plugins\n"
        f"network = pickle.load(open({str(folder / 'network.pickle')!r}, 'rb'))\n"
    )
    return file
