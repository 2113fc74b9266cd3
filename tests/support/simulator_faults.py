"""A session with a simulator in which steps and callbacks fail and Ctrl-C is pressed, on one rank alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from petabatch import Network, Simulator
from petabatch.connections import Identity
from petabatch.errors import PetabatchError
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array
from support.simulator_program import gathered, network

LAST = 4
"""The last slice, of the last rank."""
SESSION = ("error", "Ctrl-C", "callback", "error", "Ctrl-C")


class Faulty(Layer):
    """A = input; `events` are called in their steps, where they see `slice`."""

    type: Literal["faulty"] = "faulty"
    events: Any
    slice: int

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        if self.slice in ctx.slices:
            self.events.get(ctx.step, int)()
        activity[...] = drive[0]


def fail() -> None:
    """Raise an error of a plug-in or a callback."""
    raise RuntimeError("no")


def press() -> None:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


def session(folder: Path, faults: bool = True) -> None:
    """Step to the end, with a fault in each call of 10 steps; write the end to `faults.npz`.

    Each fault is met on all ranks, and leaves them all after the same whole step.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    net, events = network(), dict[int, Any]()
    layers = {
        **net.layers,
        "faulty": Faulty(shape=net.layers["image"].shape, events=events, slice=LAST),
    }
    wires = {**net.connections, "heard": Identity(pre="error", post="faulty")}
    with Simulator(Network(**{**dict(net), "layers": layers, "connections": wires}), threads=1) as sim:
        for number, kind in enumerate(SESSION if faults else ()):
            before, step = sim.save().arrays, sim.n_steps
            events.clear()
            if kind == "callback":
                sim.callback(last_rank_fails, every=[step + 5])
            else:
                events[step + 5] = fail if kind == "error" else press
            met = meets(sim)
            assert met == kind.replace("callback", "error"), f"{number}: {met}"
            told = sim._comm.broadcast(sim._comm.gather(sim.n_steps))
            assert told == [sim.n_steps] * sim._comm.size, f"{number}: {told}"
            if kind == "error":
                assert sim.n_steps == step
                for key, array in sim.save().arrays.items():
                    np.testing.assert_array_equal(array, before[key], err_msg=key)
            events.clear()
            sim.step(step + 10 - sim.n_steps)
        sim.step(60 - sim.n_steps)
        found = {key: sim[key[0]].gather(key[1]) for key in (("V1", "V"), ("dictionary", "weights"))}
        ends = {" ".join(key): array for key, array in found.items()}
        ends |= {path: gathered(sim, values) for path, values in sim.recorded.items()}
        if sim._comm.rank == 0:
            np.savez(folder / "faults.npz", **ends)


def last_rank_fails(sim: Simulator) -> None:
    """Raise an error on the rank that has the last slice."""
    if LAST in sim.slices:
        fail()


def meets(sim: Simulator) -> str:
    """Make ten steps; return what ends them."""
    try:
        sim.step(10)
    except KeyboardInterrupt:
        return "Ctrl-C"
    except (PetabatchError, RuntimeError) as error:
        return "error" if "no" in str(error) else str(error)
    return "nothing"
