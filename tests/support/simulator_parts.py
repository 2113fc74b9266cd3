"""A session of ranks that have tiles of the same slices, with errors of one of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from petabatch import Simulator, in_memory
from petabatch.errors import ArgumentError, NonFiniteError, PetabatchError
from petabatch.spec.network import Output, Parallel
from support import image_margins
from support.simulator_program import network


def errors() -> None:
    """Let numbers of one tile overflow, and callbacks of one rank raise; the steps before are kept."""
    with Simulator(network(rows=2), threads=2) as sim:
        rank = sim._comm.rank
        sim.step(19)
        before, shape = sim.save(), sim["V1"]["V"].shape
        sim["V1"]["V"][3, -1] = 3e38  # in the tile of the second rank, in the last step of a display
        with pytest.raises(NonFiniteError) as raised:
            sim.step(30)
        assert sim._comm.broadcast(str(raised.value)) == str(raised.value)
        assert sim.n_steps == 19
        assert sim["V1"]["V"][3, -1].min() > 2e38
        sim.load(before)
        for key, array in sim.save().arrays.items():
            np.testing.assert_array_equal(array, before.arrays[key], err_msg=key)
        with pytest.raises(ArgumentError, match=re.escape(str(list(shape)))):
            sim["V1"]["V"] = np.zeros((5, shape[1] // 2, *shape[2:]))  # of a tile alone

        def second_fails(one: Simulator) -> None:
            if rank == 1:
                raise ValueError("no")

        sim.callback(second_fails, every=[24])
        with pytest.raises((ValueError, PetabatchError), match="no" if rank else "rank 1 has failed"):
            sim.step(10)
        assert sim.n_steps == 24
        sim.remove_callback(second_fails)
        sim.step(16)
        mine = sim["V1"]["A"]
    with Simulator(network(features=2), threads=1) as sim:
        sim.step(19)
        sim["V1"]["V"][..., -1] = 1e38  # a feature of the second rank, whose products are too large
        before = sim.save()
        with pytest.raises(NonFiniteError, match="a product of layers") as raised:
            sim.step()
        assert sim._comm.broadcast(str(raised.value)) == str(raised.value)
        for key, array in sim.save().arrays.items():
            np.testing.assert_array_equal(array, before.arrays[key], err_msg=key)
    made = in_memory.run(network(rows=2), at=[40])
    np.testing.assert_allclose(made.states["layers/V1/A"][0], mine, atol=1e-6)
    print("all well")


def margins(folder: Path, **parts: int) -> None:
    """Show an image with the margin around it that patches reach; write what is made of it."""
    data = np.random.default_rng(1).normal(size=(8, 20, 24, 2)).astype(np.float32)
    net, whole = image_margins.network("image", data), {"same", "large"}  # with these, so would be the image
    connections = {name: one for name, one in net.connections.items() if one.post not in whole}
    layers = {name: one for name, one in net.layers.items() if name not in whole}
    changed = {"layers": layers, "connections": connections, "output": Output()}
    parallel = Parallel.model_validate(parts)
    with Simulator(net.model_copy(update={**changed, "parallel": parallel})) as sim:
        sim.step(2)
        sim.show("image", data[1::-1, 2:14, 2:18])
        shown = sim.save()
        sim.step(5)
        sim.load(shown)
        sim.step(3)
        found = {name: sim[name].gather("A") for name in layers}
        if sim._comm.rank == 0:
            np.savez(folder / "gathered.npz", **found)
