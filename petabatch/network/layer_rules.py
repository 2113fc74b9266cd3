"""What a compiled program needs of a layer: its rule, the rule's numbers, the arrays it keeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from petabatch.layers import (
    FISTA,
    ISTA,
    LCA,
    HeavyBall,
    LeakyIntegrator,
    Linear,
    Mask,
    MomentumLCA,
    Product,
    Quotient,
    Rectified,
    Rescale,
    Sigmoid,
    Squared,
)
from petabatch.layers.transfer import Transfer
from petabatch.spec.parts import Layer


@dataclass(frozen=True)
class Rule:
    """The update of a layer from its summed input, unit by unit."""

    name: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Constants by name; see `kernels/cpu/program/units.py`."""
    potential: str = ""
    """The variable that is its membrane potential, if it has one; `before` is another of the step before."""
    before: str = ""
    transfer: Transfer | None = None
    passes: tuple[float, ...] = ()
    """By feature, what its second buffer holds, which then has no other source."""
    memory: bool = False
    """It depends on the step before otherwise than by its input."""


def find_rule(layer: Layer, dt: float) -> Rule | str:
    """Return the rule of a layer, or why it has none that is compiled."""
    make = _RULES.get(type(layer))
    if make is None:
        return f"a layer of type {layer.type} has no compiled rule"
    if getattr(layer, "vertices", None) is not None:
        return "a polyline as transfer function has no compiled rule"
    return make(layer, dt)


def _membrane(name: str, before: str) -> Callable[[LCA, float], Rule]:
    def rule(layer: LCA, dt: float) -> Rule:
        leap = dt / layer.tau
        own, keep, rest = float(layer.self_interact), math.exp(-leap), 1 - math.exp(-leap)
        if isinstance(layer, ISTA):
            own, keep, rest = -layer.threshold, 1.0, leap
        inertia = getattr(layer, "beta", getattr(layer, "rate", 0.0))
        numbers = {"own": own, "inertia": inertia, "keep": keep, "rest": rest}
        return Rule(name, numbers, "V", before, _curve(layer), memory=True)

    return rule


def _curve(layer: LCA | Rectified) -> Transfer:
    curve = layer.curve
    assert isinstance(curve, Transfer)
    return curve


def _fista(layer: FISTA, dt: float) -> Rule:
    curve = Transfer(layer.threshold, layer.threshold, signed=layer.signed)
    return Rule("fista", {}, "A_before", "drive_before", curve, memory=True)


def _mask(layer: Mask, dt: float) -> Rule:
    features = layer.features
    passes = () if features is None else tuple(float(f in features) for f in range(layer.shape[2]))
    return Rule("mask", {"inverted": float(layer.invert)}, passes=passes)


def _sigmoid(layer: Sigmoid, dt: float) -> Rule:
    numbers = {"centre": layer.center, "width": layer.width, "inverted": float(layer.invert)}
    return Rule(layer.form, numbers)


def _rescale(layer: Rescale, dt: float) -> Rule:
    numbers = {
        "low": layer.low, "high": layer.high, "mean": layer.mean, "deviation": layer.deviation,
        "together": float(math.prod(layer.shape) if layer.over == "slice" else layer.shape[2]),
    }  # fmt: skip
    return Rule(f"rescale to {layer.method}", numbers)


_RULES: Mapping[type[Layer], Callable[..., Rule]] = {
    LCA: _membrane("lca", ""),
    HeavyBall: _membrane("heavy_ball", "V_before"),
    MomentumLCA: _membrane("momentum_lca", "pull"),
    ISTA: _membrane("ista", ""),
    FISTA: _fista,
    Linear: lambda layer, dt: Rule("linear", {"keep": layer.scale}),
    Rectified: lambda layer, dt: Rule("transfer", transfer=_curve(layer)),
    LeakyIntegrator: lambda layer, dt: Rule("leaky", {"keep": math.exp(-dt / layer.tau)}, memory=True),
    Sigmoid: _sigmoid,
    Mask: _mask,
    Product: lambda layer, dt: Rule("product"),
    Quotient: lambda layer, dt: Rule("quotient"),
    Squared: lambda layer, dt: Rule("squared"),
    Rescale: _rescale,
}
