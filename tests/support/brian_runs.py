"""The models of `brian_models.py` as networks of petabatch, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch import in_memory
from petabatch.connections import Sparse
from petabatch.layers import Neurons
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP
from petabatch.weights import WeightArray
from support.brian_models import DT, MODELS, NETWORKS, WEIGHTS, Model, wiring


def neurons(model: Model, units: int, method: str, **start: Any) -> Neurons:
    """Return a layer of a model."""
    return Neurons(
        shape=(1, 1, units), equations=model.equations, spike=model.spike, reset=model.reset,
        refractory=model.refractory, method=method, start={**model.start, **start},
    )  # fmt: skip


def traces(name: str, method: str) -> np.ndarray:
    """Return the variables of a unit after each step, `[variables, steps]`, in the order of their names."""
    layer = neurons(MODELS[name], 1, method)
    variables = sorted(layer.step.system.variables)
    output = Output(layers={"n": LayerOutput(every=STEP, variables=tuple(variables))})
    run = Run(steps=MODELS[name].steps, display=MODELS[name].steps, dt=DT, precision="float64")
    found = in_memory.run(Network(run=run, layers={"n": layer}, output=output)).recorded
    return np.array([np.asarray(found[f"layers/n/{key}"]).ravel() for key in variables])


def spiking_network(
    name: str, method: str, units: int, steps: int, precision: str = "float64", slices: int = 1
) -> Network:
    """Return a network of spiking units whose spikes are recorded."""
    wired = wiring(name, units)
    start = {key: WeightArray(data=values.reshape(1, 1, -1)) for key, values in wired.start.items()}
    pairs = (wired.excitatory, wired.inhibitory)
    connections = {
        target: Sparse(pre="n", post="n", target=target, matrix=(*ends, np.full(ends.shape[1], weight)))
        for target, weight, ends in zip(("ge", "gi"), WEIGHTS[name], pairs, strict=True)
    }
    return Network(
        run=Run(steps=steps, display=steps, dt=DT, precision=precision, batch=slices),
        layers={"n": neurons(NETWORKS[name], units, method, **start)},
        connections=connections,
        output=Output(layers={"n": LayerOutput(every=STEP)}),
    )


def spikes(name: str, method: str, units: int, steps: int) -> np.ndarray:
    """Return the spikes of a network, `[2, spikes]`: step and unit."""
    found = np.asarray(in_memory.run(spiking_network(name, method, units, steps)).recorded["layers/n/A"])
    step, _, _, _, unit = np.nonzero(found)
    return np.array([step + 1, unit])
