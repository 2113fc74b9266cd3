"""A session with a simulator, on one rank or several: steps, reads, writes and images, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from petabatch import Network, Simulator
from petabatch.layers import Input
from petabatch.sources import ImageArray
from petabatch.spec.network import Parallel
from petabatch.weights import Gaussian
from support.networks import images, lca_network

DATA = images(5)


def network(**parts: int) -> Network:
    """Return a network that learns, of parts that ranks can compare, with `parts` of its slices."""
    net = lca_network(DATA)
    source = ImageArray(data=DATA.reshape(-1, *DATA.shape[2:]), crop="top_left")
    dictionary = net.connections["dictionary"].model_copy(update={"init": Gaussian()})
    layers = {**net.layers, "image": Input(shape=DATA.shape[2:], source=source)}
    connections = {**net.connections, "dictionary": dictionary}
    parallel = Parallel.model_validate(parts)
    return net.model_copy(update={"layers": layers, "connections": connections, "parallel": parallel})


def session(folder: Path, **parts: int) -> None:
    """Step, read, assign, show, save and load; write what all slices have been to `gathered.npz`."""
    found: dict[str, Any] = {}
    with Simulator(network(**parts)) as sim:
        mine = slice(sim.slices.start, sim.slices.stop)

        def gather(label: str) -> None:
            parts = {("V1", "V"), ("V1", "A"), ("V1", "history"), ("energy", "total"), ("image", "A")}
            for part, name in sorted(parts | {("dictionary", "weights"), ("dictionary", "momentum")}):
                found[f"{label} {part} {name}"] = sim[part].gather(name)

        sim.step(13)
        gather("stepped")
        potential = np.random.default_rng(5).normal(size=(5, 6, 8, 12)).astype(np.float32)
        sim["V1"]["V"] = potential[mine]
        sim["V1"]["V"][..., 3] += 1
        V = sim["V1"]["V"]
        V[V < 0] = 0
        sim["dictionary"]["weights"] *= 0.5
        sim["V1"]["threshold"] = [0.2, 0.3, 0.4, 0.5, 0.6]
        gather("assigned")
        sim.step(4)
        sim.show("image", DATA[::-1, 1][mine])
        gather("shown")
        sim.callback(lambda one: gather("called"), every=[21])
        sim.step(10)
        sim.save(folder / "state.h5", force=True)
        saved = sim.save()
        sim.step(9)
        gather("later")
        sim.load(saved)
        gather("loaded")
        sim.load(folder / "state.h5")
        sim.step(9)
        gather("again")
        found |= {f"recorded {path}": gathered(sim, values) for path, values in sim.recorded.items()}
        found["changes"] = np.array([f"{path} {step}" for path, step in sim.changes.items()])
        if sim._comm.rank == 0:
            np.savez(folder / "gathered.npz", **found)


def gathered(sim: Simulator, values: np.ndarray) -> np.ndarray:
    """Return recorded values with the slices of all ranks."""
    batched = values.shape[1] == len(sim.slices)
    others = sim._engine.comm
    parts = others.broadcast(others.gather(values))
    return np.concatenate(parts, axis=1) if batched else parts[0]
