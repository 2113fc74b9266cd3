"""Poisson processes as stimuli, with rates that are constant, functions of time, or what arrives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from petabatch.clock import Clock
from petabatch.equations.arrays import evaluate
from petabatch.equations.blocks import Equations
from petabatch.equations.build import Line
from petabatch.equations.expression import Expression, Name, add, names_in
from petabatch.equations.grammar import EquationError, check_name, parse
from petabatch.equations.methods import Choice
from petabatch.equations.source import row_function, row_source
from petabatch.equations.step import Step
from petabatch.equations.system import System
from petabatch.kernels.poisson import LARGEST, NEGLIGIBLE, PIECE, SQUARINGS, TERMS
from petabatch.kernels.rows import Form
from petabatch.random import stream
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.frozen import FrozenDict
from petabatch.spec.model import Finite
from petabatch.spec.part_errors import equation_error
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.rows import RowFunction
from petabatch.spec.schedule import NEVER, Schedule
from petabatch.spec.weights import Initial, NumberOrInitial
from petabatch.variable import LAYER_DIMS, Array, Variable

_INPUT, _RATE, _SEEN = "rate__in", "rate__1", "rate__2"
_TIMES = 1000
"""Times at which an expression is evaluated to find rates that are too large."""


class Poisson(Layer):
    """Independent Poisson processes: A is the number of spikes of a unit in a step.

    Its distribution is Poisson's with mean dt * max(rate + input, 0), where the input is what connections
    deliver in the step: a negative rate is a threshold. The numbers depend on the seed, the slice, the unit
    and the step alone. Others see them in the next step at the earliest, as the spikes of layers of type
    `neurons`. The mean is at most 4096.

    Counts are found by inversion of the distribution (Devroye 1986, section X.3), from uniform numbers of 53
    bits; a mean above 16 is the sum of several.
    """

    later: ClassVar[bool] = True
    diverges: ClassVar[str] = (
        f"the mean number of spikes in a step, dt * rate, is at most {LARGEST:g}: lower the rate or run.dt"
    )
    type: Literal["poisson"] = "poisson"
    rate: Finite | str = 0.0
    """Spikes in a unit of time, that of `run.dt`: a number, or an expression of `t`, `dt`, `pi` and
    `parameters`, as `0.02 * (1 + sin(2 * pi * t / 100))`, in the language of [equations](equations.md)."""
    parameters: NumberOrInitial = Field(default_factory=FrozenDict)
    """Parameters of the expression by name: a number, or an initialiser for a value of each unit."""

    @model_validator(mode="after")
    def _rate_can_be_read(self) -> Poisson:
        errors: list[tuple[str, EquationError]] = []
        for key, read in (("parameters", self._check_names), ("rate", self._expression)):
            try:
                read()
            except EquationError as error:
                errors.append((key, error))
                break
        if errors:
            raise ValidationError.from_exception_data(
                type(self).__name__,
                [
                    InitErrorDetails(type=equation_error(error), loc=(key,), input=getattr(self, key))
                    for key, error in errors
                ],
            )
        return self

    def _check_names(self) -> None:
        for name in self.parameters:
            check_name(name, None)
        if self.parameters and not isinstance(self.rate, str):
            raise EquationError(
                "these are parameters of an expression", None, f"rate = {self.rate:g}",
                "an expression in `rate`, or no `parameters`",
            )  # fmt: skip

    def _expression(self) -> Expression | None:
        """Return the rate as an expression, None where it is a number; raises EquationError."""
        return parse(self.rate, (*self.parameters, "t", "dt")) if isinstance(self.rate, str) else None

    @property
    def spiking(self) -> bool:
        """Always true."""
        return True

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero: spikes are rare."""
        return True

    @property
    def silent(self) -> bool:
        """If there is no rate but the input, or a negative one, which is a threshold."""
        return isinstance(self.rate, float) and self.rate <= 0

    @property
    def host_numbers(self) -> bool:
        """Random numbers are drawn by the host."""
        return True

    @property
    def starts(self) -> Mapping[str, tuple[str, Initial]]:
        """The parameters that are different in each unit, and the activity in step 0."""
        units = ((name, one) for name, one in self.parameters.items() if not isinstance(one, float))
        return {**super().starts, **{name: (f"parameters.{name}", one) for name, one in units}}

    def variables(self) -> Sequence[Variable]:
        """Declare the parameters that are different in each unit."""
        units = (name for name, one in self.parameters.items() if not isinstance(one, float))
        return [Variable(name, self.shape, LAYER_DIMS, "parameter of each unit") for name in units]

    @property
    def restarts(self) -> Schedule:
        """Never: there is nothing to reset."""
        return NEVER

    @property
    def unused(self) -> Mapping[str, str]:
        """A schedule of resets, and parameters that the rate does not read."""
        rate = self._expression()
        read = () if rate is None else tuple(names_in(rate))
        found = {f"parameters.{n}": "as the rate does not read it" for n in self.parameters if n not in read}
        return found if self.reset == NEVER else {**found, "reset": "as there is nothing to reset"}

    @property
    def _step(self) -> Step | None:
        """The rate and what arrives as lines of a step, None where the rate is a number."""
        rate = self._expression()
        if rate is None:
            return None
        lines = (Line(_RATE, rate), Line(_SEEN, add(Name(_RATE), Name(_INPUT))))
        system = System(Equations({}, {}), frozenset())
        return Step(system, Choice("euler", ""), lines, {}, _SEEN, (), False, (), rate)

    @property
    def _numbers(self) -> dict[str, float]:
        """The parameters that are numbers."""
        return {name: one for name, one in self.parameters.items() if isinstance(one, float)}

    @property
    def generated(self) -> str:
        """The source of the row function of the rate, if it is an expression."""
        step = self._step
        if step is None:
            return ""
        names = [variable.name for variable in self.variables()]
        return row_source(step, ("dt", *self._numbers), names, (_INPUT,), ())

    def compiled_rule(self) -> CompiledRule:
        """Return the same, with the same random numbers."""
        step = self._step
        if step is None:
            assert isinstance(self.rate, float)
            return CompiledRule("poisson", {"rate": self.rate})
        parameters = tuple((name, "double", 0) for name in ("dt", *self._numbers))
        names = tuple(variable.name for variable in self.variables())
        form = Form(parameters, names, 1, (), "t" in step.names)
        row = RowFunction(row_function(self.generated), form, tuple(self._numbers.values()), ())
        return CompiledRule("poisson", {"rate": 0.0}, row=row)

    def _largest(self, dt: float, steps: int) -> float:
        """Return the largest rate at sampled times of the run, 0 if each unit has its own rate."""
        rate = self._expression()
        if rate is None:
            assert isinstance(self.rate, float)
            return self.rate
        if len(self._numbers) < len(self.parameters):
            return 0.0
        times = Clock(dt=dt).time(np.linspace(0, steps, min(steps, _TIMES)))
        with np.errstate(all="ignore"):
            return float(np.max(evaluate(rate, {**self._numbers, "t": times, "dt": dt})))

    def doubts(self, dt: float, batch: int, steps: int) -> Iterator[str]:
        """Yield a note on a rate of more than one spike a step, such as one in Hz where dt is in ms."""
        rate = self._largest(dt, steps)
        if (spikes := rate * dt) > 1:
            yield f"a unit has {spikes:.3g} spikes a step; `rate` is per unit of time of run.dt, {dt:g}"

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Draw the spikes of a step."""
        xp, rate = ctx.xp, drive[0]
        expression, added = self._expression(), self.rate
        if expression is not None:
            added, values = (
                0.0,
                {**self._numbers, **state, "t": np.float64(ctx.clock.t(ctx.step)), "dt": ctx.dt},
            )
            with np.errstate(all="ignore"):
                rate = evaluate(expression, values, xp, activity.dtype) + rate
        mean = ctx.dt * xp.maximum(added + rate.astype(float), 0.0)
        activity[...] = self._counts(ctx, mean)

    def _counts(self, ctx: StepContext, mean: Array) -> Array:
        """Return the numbers of spikes, float64 `[lanes, ny, nx, nf]`."""
        xp, whole = ctx.xp, mean <= LARGEST
        pieces = xp.maximum(xp.ceil(xp.where(whole, mean, 0.0) / PIECE), 1.0)
        each, found = xp.where(whole, mean, 0.0) / pieces, xp.where(whole, 0.0, math.nan)
        bits: list[Any] = [
            stream(ctx.seed, f"layers/{ctx.layer}", n, ctx.step).bit_generator for n in ctx.slices
        ]
        for piece in range(int(pieces.max())):
            words = np.stack([one.random_raw(math.prod(self.shape)) for one in bits])
            chance = xp.asarray((words >> np.uint64(11)) * 2.0**-53).reshape(mean.shape)
            found += xp.where(piece < pieces, _inverted(each, chance, xp), 0.0)
        return found


def _inverted(mean: Array, chance: Array, xp: Any) -> Array:
    """Return the smallest n with P(N <= n) > chance, as `kernels/cpu/program/poisson.py` does."""
    y, p = mean / (1 << SQUARINGS), 1.0
    for k in range(TERMS, 0, -1):
        p = 1.0 - y * p / k
    for _ in range(SQUARINGS):
        p = p * p
    below, n = p, xp.zeros_like(mean)
    while bool((more := (chance >= below) & (p > NEGLIGIBLE)).any()):
        n = xp.where(more, n + 1, n)
        p = xp.where(more, p * mean / xp.maximum(n, 1), p)
        below = xp.where(more, below + p, below)
    return n
