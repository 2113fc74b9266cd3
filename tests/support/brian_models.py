"""Models that Brian2 and petabatch simulate from the same texts, and networks with the same synapses.

Times are in ms. This module imports neither of the two.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

DT = 0.1


class Model(NamedTuple):
    """Units, with or without spikes."""

    equations: str
    start: dict[str, float]
    methods: tuple[str, ...]
    spike: str | None = None
    reset: str | None = None
    refractory: float | None = None
    steps: int = 600


_EXPLICIT = ("euler", "rk4")
"""Brian2's `heun` is of equations with noise: without, it is Euler's method."""
MODELS = {
    "leaky": Model(
        "dv/dt = (6 * int(t > 20.03) * int(t < 40.03) * 3 - v) / 10\ndw/dt = (v - w) / 30", {"w": 1.0},
        ("exponential_euler", *_EXPLICIT), "v > 10 - w / 4", "v = 0; w = w + 1",
    ),
    "chain": Model(
        "dv/dt = (g + h + 12 - v) / 20 : unless refractory\ndg/dt = (h - g) / 5\ndh/dt = (4 - h) / 5\n"
        "dw/dt = (v - w) / 30",
        {"g": 8.0, "h": 9.0}, ("exact", "exponential_euler", *_EXPLICIT), "v > 10", "v = 1; h += 1", 3.0,
    ),
    "izhikevich": Model(
        "dv/dt = 0.04 * v ** 2 + 5 * v + 140 - u + 10\ndu/dt = 0.02 * (0.2 * v - u)",
        {"v": -65.0, "u": -13.0}, _EXPLICIT, "v >= 30", "v = -65; u += 8",
    ),
    "adex": Model(
        "dv/dt = (30 * (-70.6 - v) + 30 * 2 * exp((v + 50.4) / 2) + 1000 - w) / 281\n"
        "dw/dt = (4 * (v + 70.6) - w) / 144",
        {"v": -70.6}, _EXPLICIT, "v > -40", "v = -70.6; w += 80.5",
    ),
    "hodgkin_huxley": Model(
        """
        dv/dt = (0.05 * (-60 - v) + 100 * m ** 3 * h * (50 - v) + 30 * n ** 4 * (-90 - v) + 1.5) / 1
        dm/dt = am * (1 - m) - bm * m
        dn/dt = an * (1 - n) - bn * n
        dh/dt = ah * (1 - h) - bh * h
        am = 0.32 * 4 / exprel((13 - v - 63) / 4)
        bm = 0.28 * 5 / exprel((v + 63 - 40) / 5)
        ah = 0.128 * exp((17 - v - 63) / 18)
        bh = 4 / (1 + exp((40 - v - 63) / 5))
        an = 0.032 * 5 / exprel((15 - v - 63) / 5)
        bn = 0.5 * exp((10 - v - 63) / 40)
        """,
        {"v": -60.0}, ("exponential_euler",), # others are unstable at this step
    ),
    "oscillators": Model(
        "dx/dt = 0.3 + 0.2 * sin(y - x) + 0.1 * cos(t / 7)\ndy/dt = 0.25 + 0.2 * sin(x - y)",
        {"y": 1.0}, _EXPLICIT,
    ),
}  # fmt: skip
"""Single units; constants make them spike, or oscillate, several times."""

_CURRENTS = """
dv/dt = (ge + gi - (v + 49)) / 20 : unless refractory
dge/dt = -ge / 5
dgi/dt = -gi / 10
"""
_CONDUCTANCES = """
dv/dt = (ge * (0 - v) + gi * (-80 - v) + (-60 - v)) / 20 : unless refractory
dge/dt = -ge / 5
dgi/dt = -gi / 10
"""
_UNITS: Any = {"start": {}, "spike": "v > -50", "reset": "v = -60", "refractory": 5.0}
NETWORKS = {
    "cuba": Model(_CURRENTS, methods=("exact", "exponential_euler", *_EXPLICIT), **_UNITS),
    "coba": Model(_CONDUCTANCES, methods=("exponential_euler", *_EXPLICIT), **_UNITS),
    "driven": Model(_CONDUCTANCES.replace("-60", "-45"), methods=("exponential_euler", *_EXPLICIT), **_UNITS),
}
"""The networks of Vogels and Abbott 2005 (Journal of Neuroscience 25, 10786-10795); `driven` is `coba` with
another resting potential, at which a small network does not fall silent."""
WEIGHTS = {"cuba": (1.62, -9.0), "coba": (0.6, 6.7), "driven": (0.6, 6.7)}
"""Of excitatory and inhibitory synapses."""
SHORT, WHOLE = ("cuba", "driven"), ("cuba", "coba")
"""Networks of 400 units for 100 ms, and of 4,000 for a second."""


class Wiring(NamedTuple):
    """Starts, and the synapses of excitatory and inhibitory units, `[2, synapses]`: pre, post."""

    start: dict[str, np.ndarray]
    excitatory: np.ndarray
    inhibitory: np.ndarray


def wiring(name: str, units: int) -> Wiring:
    """Return a network of so many units, four fifths of them excitatory, with 80 synapses each on average."""
    rng = np.random.default_rng(7)
    if name == "cuba":
        start = {"v": rng.uniform(-60, -50, units), "ge": np.zeros(units), "gi": np.zeros(units)}
    else:
        draws = {"v": (-60, 5, -80, -51), "ge": (4, 1.5, 0, 99), "gi": (20, 12, 0, 99)}
        start = {
            key: rng.normal(mean, by, units).clip(low, high) for key, (mean, by, low, high) in draws.items()
        }
    synapses = np.array(np.nonzero(rng.random((units, units)) < 80 / units))
    inhibits = synapses[0] >= units * 4 // 5
    return Wiring(start, synapses[:, ~inhibits], synapses[:, inhibits])
