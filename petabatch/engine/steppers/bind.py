"""From a code layer to what the compiled loop needs of it: its numbers, its arrays, its pace."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petabatch.kernels.cpu.controllers import StepControl
from petabatch.kernels.rules import ACCELERATED, GRADIENT, HEAVY_BALL, LEAKY, MOMENTUM, Cell, Units, cell
from petabatch.kernels.timescale import BASE, Growth
from petabatch.layers import FISTA, ISTA, LCA, HeavyBall, MomentumLCA
from petabatch.layers.timescale import BaseTimeScale, KneeTimeScale, LogTimeScale
from petabatch.layers.transfer import Transfer
from petabatch.spec.parts import Layer
from petabatch.variable import Array

RULES = {LCA: LEAKY, HeavyBall: HEAVY_BALL, MomentumLCA: MOMENTUM, ISTA: GRADIENT, FISTA: ACCELERATED}
TIME_SCALES = (BaseTimeScale, KneeTimeScale, LogTimeScale)
_BEFORE = {HeavyBall: "V_before", MomentumLCA: "pull", FISTA: "drive_before"}
Weights = tuple[float, float, float]
"""Factors on sum error^2, sum |A| and the number of active units, that make a number of them."""


def is_known(layer: Layer) -> bool:
    """Say whether the compiled loop has the layer's rule, with all that its parameters ask for."""
    plain = not isinstance(layer, LCA) or layer.vertices is None
    return type(layer) in RULES and plain and layer.border == "zero"


def numbers(layer: Layer) -> Cell:
    """Return the numbers of a layer that `is_known`."""
    rule = RULES[type(layer)]
    if isinstance(layer, FISTA):
        return cell(rule, 0, 0, layer.threshold, layer.threshold, signed=layer.signed)
    assert isinstance(layer, LCA)
    t = layer.curve
    assert isinstance(t, Transfer)
    own = -layer.threshold if isinstance(layer, ISTA) else float(layer.self_interact)
    inertia = 0.0
    if isinstance(layer, (HeavyBall, MomentumLCA)):
        inertia = layer.beta if isinstance(layer, HeavyBall) else layer.rate
    return cell(
        rule, own, inertia, t.threshold, t.shift, t.width, t.minimum,
        t.maximum, t.signed,
    )  # fmt: skip


def units(layer: Layer, state: Mapping[str, Array]) -> Units:
    """Return the arrays of one slice, from its layer's `A`, `V` and so on, by name."""
    none = np.zeros(0, np.float32)
    potential = state["A_before" if isinstance(layer, FISTA) else "V"]
    before = _BEFORE.get(type(layer))
    return Units(state["A"].reshape(-1), potential.reshape(-1), state[before].reshape(-1) if before else none)


def pace(layer: Layer, dt: float, state: Mapping[str, Array], followed: Weights | None) -> StepControl:
    """Return how fast the slice moves; `followed` says what the energy is that its time scale follows.

    Without it, a time scale is taken as it is: the caller lets it follow what it does, step by step.
    """
    none, growth, zero = np.zeros(1), Growth(BASE, 0.0, 0.0, 0.0, 0.0), np.float32(0)
    if isinstance(layer, FISTA):
        free = (0.0, 0.0, 0.0)
        return StepControl(zero, zero, False, dt, 1.0, free, growth, state["step"], state["age"], none)
    assert isinstance(layer, LCA)
    scale = layer.time_scale
    if scale is not None and followed is not None:
        now, ceiling, seen = (state[name] for name in ("time_scale", "time_scale_max", "energy_before"))
        return StepControl(zero, zero, True, dt, layer.tau, followed, scale.numbers, now, ceiling, seen)
    now = dt * float(state["time_scale"][0]) if scale is not None else dt
    e, rest = layer.decay(now, np.dtype(np.float32))
    return StepControl(
        np.float32(e), np.float32(rest), False, dt, layer.tau, (0.0, 0.0, 0.0), growth, none, none, none
    )
