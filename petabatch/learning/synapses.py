"""Learning rules of single synapses: by equations, and by the times of pairs of spikes."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails

from petabatch.equations.grammar import EquationError
from petabatch.equations.read import WrongTexts
from petabatch.errors import did_you_mean
from petabatch.kernels.rows import NUMBERS
from petabatch.spec.frozen import FROZEN, FrozenDict
from petabatch.spec.model import Finite, Positive
from petabatch.spec.part_errors import equation_error
from petabatch.spec.plasticity import Plasticity, SynapticRule
from petabatch.spec.weights import NumberOrInitial


class SynapticEquations(SynapticRule):
    """Statements at the spikes of the two units of a synapse.

    `on_pre` is made where a spike of the pre unit arrives, `on_post` where the post unit spikes, without a
    delay; in a step, all `on_pre` come before all `on_post`. They may use the weight `w`, `traces`,
    `variables`, `parameters`, `factors`, the time `t` and `dt`, in the language of
    [equations](equations.md). A synapse delivers the weight that it has when the spike arrives, before
    `on_pre`, unless that gives `delivered` another value.
    """

    type: Literal["synapses"] = "synapses"
    on_pre: str | None = None
    """Statements where a spike of the pre unit arrives, such as `x += 1; w -= a * y`; `delivered = ...` is
    what the synapse delivers."""
    on_post: str | None = None
    """Statements where the post unit spikes, such as `y += 1; w += b * x`."""
    traces: Annotated[dict[str, Positive], FROZEN] = Field(default_factory=FrozenDict)
    """Variables that decay to 0 exponentially, by name: the time constant, in the unit of `run.dt`. Those
    that are the same at all synapses of a unit are kept once for it."""
    variables: tuple[str, ...] = ()
    """Names of further variables, which stand still between spikes."""
    parameters: Annotated[dict[str, Finite], FROZEN] = Field(default_factory=FrozenDict)
    """Numbers in the statements, by name."""
    factors: Annotated[dict[str, str], FROZEN] = Field(default_factory=FrozenDict)
    """Layers whose activity the statements read, by the name that it has there, such as `{ r = "reward" }`:
    layers of one unit, or of the shape of the post layer."""
    bounds: tuple[Finite, Finite] | None = None
    """Smallest and largest weight: it is clipped after each event that changes it."""
    start: NumberOrInitial = Field(default_factory=FrozenDict)
    """Traces and variables in step 0, by name: a number, or an initialiser for a value of each synapse;
    others are 0."""

    @model_validator(mode="after")
    def _statements_can_be_read(self, info: ValidationInfo) -> SynapticEquations:
        errors = []
        try:
            self.plasticity.model(delayed=False, held=False)
        except WrongTexts as wrong:
            errors += wrong.errors
        known = (*self.traces, *self.variables)
        for name in self.start:
            if name not in known:
                message, hint = "there is no variable of this name", did_you_mean(name, known)
                errors.append(("start", EquationError(message, None, name, ", ".join(known), hint)))
        if (count := len(self.plasticity.numbers(1.0))) > NUMBERS:
            found = f"{count} numbers: parameters, time constants, bounds and dt"
            error = EquationError("these are too many", None, found, f"at most {NUMBERS}")
            errors.append(("parameters", error))
        if self.bounds is not None and not self.bounds[0] < self.bounds[1]:
            found, expected = str(list(self.bounds)), "the smaller one first"
            errors.append(("bounds", EquationError("no weight is between these", None, found, expected)))
        if errors:
            raise ValidationError.from_exception_data(
                type(self).__name__,
                [
                    InitErrorDetails(type=equation_error(error), loc=(key,), input=getattr(self, key))
                    for key, error in errors
                ],
            )
        return self

    @cached_property
    def plasticity(self) -> Plasticity:
        """Its statements and numbers."""
        return Plasticity(
            self.on_pre, self.on_post, self.traces, self.variables, self.parameters, self.factors,
            self.bounds, self.start,
        )  # fmt: skip


class Stdp(SynapticRule):
    """Spike-timing-dependent plasticity: each pair of spikes changes the weight (Song, Miller & Abbott 2000).

    w += a_plus exp(-(t_post - t_pre) / tau_plus) for each pre spike before a post spike, and
    w -= a_minus exp(-(t_pre - t_post) / tau_minus) for each post spike before a pre spike, with the time at
    which the pre spike arrives. It is the rule `synapses` with

        on_pre  = "x += 1; w -= a_minus * y"
        on_post = "y += 1; w += a_plus * x"
        traces  = { x = tau_plus, y = tau_minus }
    """

    type: Literal["stdp"] = "stdp"
    a_plus: Finite
    """Potentiation by a pair of spikes at the same time, in the unit of the weight."""
    a_minus: Finite
    """Depression by a pair of spikes at the same time, in the unit of the weight."""
    tau_plus: Positive = 20.0
    """Time constant of potentiation, in the unit of `run.dt`."""
    tau_minus: Positive = 20.0
    """Time constant of depression, in the unit of `run.dt`."""
    largest: Positive
    """Largest weight; the smallest is 0."""

    @cached_property
    def plasticity(self) -> Plasticity:
        """The pair rule as equations."""
        return Plasticity(
            "x += 1; w -= a_minus * y",
            "y += 1; w += a_plus * x",
            {"x": self.tau_plus, "y": self.tau_minus},
            parameters={"a_plus": self.a_plus, "a_minus": self.a_minus},
            bounds=(0.0, self.largest),
        )
