"""Answers of parts to the compiled steppers: the rule of a layer, what a probe measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from petabatch.kernels.rules import Cell
from petabatch.kernels.transfer import RECTIFIER, Curve, Polyline
from petabatch.spec.rows import RowFunction


class NotSuitable(Exception):
    """A part or a network cannot be advanced in some way; the message is the reason, one clause."""


@dataclass(frozen=True)
class CompiledRule:
    """The update of a layer from its input as compiled code makes it, unit by unit.

    A subclass does not inherit the rule of its base class, since the `update` that it overrides may differ.
    One to which the rule applies returns `super().compiled_rule()`.
    """

    name: str
    """Of a function in `kernels/cpu/rules.py` (code layers) or `kernels/cpu/program/units.py` (others)."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Constants of rules without membrane, by name."""
    gates: tuple[float, ...] = ()
    """By feature, what the second buffer holds, which then has no other source."""
    memory: bool = False
    """The rule depends on the step before otherwise than by its input."""
    row: RowFunction | None = None
    """Of the rule `row`, the function of a layer that makes its update."""
    train: Callable[[int], tuple[np.ndarray, np.ndarray]] | None = field(default=None, compare=False)
    """Of the rule `spike_times`, the times and units of the spikes of a slice, by its number."""
    variables: tuple[str, ...] = ()
    """Of layers that are no code, the variables that the rule changes, in its order."""
    curve: Curve | Polyline = RECTIFIER
    """The transfer function."""

    # Of code layers: the membrane equation.
    potential: str = ""
    """The variable that the rule integrates; empty for layers that are no code."""
    previous: str = ""
    """A further variable of the step before."""
    rests: bool = False
    """A reset sets `previous` to the potential, so that the layer restarts at rest."""
    decay: Callable[[float, np.dtype], tuple[float, float]] | None = None
    """dt to (e, gain): V = e V + gain drive."""
    self_interaction: float = 0.0
    """Factor on a unit's own activity, or on its sign, in its drive."""
    inertia: float = 0.0
    """Factor on the inertia of the rule: on the last change of the potential, or on the last pull."""
    adaptive: tuple[str, str] | None = None
    """Variables of a slice that the rule itself adapts: its step size and the age of its momentum."""
    tau: float = 1.0
    scale: Any = None
    """Numbers of the time-scale controller (`kernels.timescale.Growth`), None without one."""
    energy: str = ""
    """The energy probe that the controller follows."""

    def decays(self, dt: float, precision: str = "float32") -> tuple[Any, Any]:
        """Return (e, gain) of a step of `dt` in a precision, (0, 0) for rules that have none."""
        real = np.dtype(precision)
        e, gain = (0.0, 0.0) if self.decay is None else self.decay(dt, real)
        return real.type(e), real.type(gain)

    def cell(self, number: int, dt: float, precision: str = "float32") -> Cell:
        """Return the numbers of the rule `number` in steps of `dt`; a polyline is applied after the rule."""
        curve = self.curve if isinstance(self.curve, Curve) else RECTIFIER
        (e, gain), real = self.decays(dt, precision), np.dtype(precision).type
        if self.decay is None:
            e = real(self.numbers.get("factor", 1.0))
        return Cell(number, real(self.self_interaction), real(self.inertia), e, gain, dt, self.tau, curve)


@dataclass(frozen=True)
class Lasso:
    """The objective 0.5 |image - reconstruction|^2 + coefficient |A|_1 of a code, by names."""

    image: str
    reconstruction: str
    code: str
    drive: str
    """The connection from the residual to the code."""
    coefficient: float
    signed: bool


@dataclass(frozen=True)
class Term:
    """A coefficient times a norm of a layer's activity, summed in float64."""

    layer: str
    norm: Literal["squares", "sizes", "count"]
    """Sum of squares, of absolute values, or the number of units that are not 0."""
    coefficient: float = 1.0

    def __str__(self) -> str:
        """Return the term as it is printed."""
        return f"{self.coefficient:g} {self.norm} of {self.layer}"
