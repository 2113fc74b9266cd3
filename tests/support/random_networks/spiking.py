"""Random spiking layers: neurons by their equations, and stimuli."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.layers import Neurons, Poisson, SpikeTimes
from petabatch.spec.parts import Layer
from support.random_networks.tables import Shape, Tables

_EQUATIONS = (
    "dv/dt = (0.5 * k - v + I) / 4\ndg/dt = (v - g) / 3",
    "dv/dt = (k - abs(g) * v + I) / 4\ndg/dt = -g / 3",
    "dv/dt = k * sin(t) - v * s + I\ns = clip(g, 0.1, 2) / 3\ndg/dt = (v - g) / 2 + 0.3 * xi",
)
_SUITED = {"Neurons.method=exact": _EQUATIONS[0], "Neurons.method=euler_maruyama": _EQUATIONS[2]}
"""Equations for methods that do not suit all."""
_OF_SPIKES = ("Neurons.spike", "Neurons.reset", "Neurons.refractory")
_LATEST = 12.0
"""Time of the last given spike, about that of the end of a run."""


def spiking(tables: Tables, kind: type[Layer], shape: Shape, batch: int) -> dict[str, Any]:
    """Return keys of a spiking layer that depend on each other; nothing for other types."""
    if kind is Neurons:
        return _neurons(tables, shape, batch)
    if kind is Poisson:
        return _poisson(tables, shape, batch)
    if kind is SpikeTimes:
        return _spike_times(tables, shape, batch)
    return {}


def _number(tables: Tables, shape: Shape, value: float, batch: int) -> Any:
    """Return a number, or an initialiser for a number of each unit."""
    asked = any(word.startswith(("initialiser ", "Initial.", "Constant.same")) for word in tables.demanded)
    return tables.initial(shape, set(), batch) if asked or tables.chance(0.5) else value


def _neurons(tables: Tables, shape: Shape, batch: int) -> dict[str, Any]:
    given, spikes = dict[str, Any](), tables.chance(0.5)
    methods = [text for word, text in _SUITED.items() if word in tables.demanded]
    text = methods[0] if methods else tables.one_of(*_EQUATIONS)
    if not tables.demanded.isdisjoint((*_OF_SPIKES, "Neurons.activity")):
        spikes = "Neurons.activity" not in tables.demanded
    if tables.has("Neurons.parameters", 0.5):
        given["parameters"] = {"k": _number(tables, shape, 0.7, batch)}
    else:
        text = text.replace("k", "1")
    if tables.has("Neurons.currents", 0.5):
        given["currents"] = ("I",)
    else:
        text = text.replace(" + I", "")
    if tables.has("Neurons.start", 0.5):
        given["start"] = {"v": _number(tables, shape, 0.3, batch)}
    if spikes:
        given["spike"] = "v > 0.21"
        if tables.has("Neurons.reset", 0.7):
            given["reset"] = "v = -0.2; g += 0.1"
        if tables.has("Neurons.refractory", 0.5):
            given["refractory"] = 1.5
            text = text.replace("\n", ": unless refractory\n", 1)
    elif tables.has("Neurons.activity", 0.5):
        given["activity"] = "tanh(v) + g / 2"
    return {"equations": text, **given}


def _poisson(tables: Tables, shape: Shape, batch: int) -> dict[str, Any]:
    if tables.has("Poisson.parameters", 0.5):
        return {"rate": "k * (1 + sin(t))", "parameters": {"k": _number(tables, shape, 0.6, batch)}}
    return {"rate": tables.one_of(0.8, "0.5 * (1 + sin(t))")}


def _spike_times(tables: Tables, shape: Shape, batch: int) -> dict[str, Any]:
    count, units = 40, int(np.prod(shape))
    rows = [tables.rng.uniform(0, _LATEST, count), tables.rng.integers(units, size=count)]
    if tables.chance(0.5):
        rows.append(tables.rng.integers(batch, size=count))
    spikes = np.column_stack(rows)
    if tables.chance(0.5):
        return {"spikes": tuple(tuple(float(number) for number in row) for row in spikes)}
    path = tables.folder / f"{tables.rng.integers(2**60):x}.txt"
    np.savetxt(path, spikes)
    return {"path": str(path)}
