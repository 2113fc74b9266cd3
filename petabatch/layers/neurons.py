"""Neurons, and any other units, by their equations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails

from petabatch.clock import Clock
from petabatch.equations.arrays import evaluate
from petabatch.equations.blocks import read_statements
from petabatch.equations.divergence import hint, overflows
from petabatch.equations.expression import names_in
from petabatch.equations.grammar import EquationError
from petabatch.equations.methods import stability_limit
from petabatch.equations.read import Texts, WrongTexts, read_step
from petabatch.equations.source import row_function, row_source
from petabatch.equations.step import LEFT, STEPS, Step
from petabatch.equations.stored import stored_step
from petabatch.frozen import changed
from petabatch.kernels.rows import BEFORE, BUFFERS, NUMBERS, Draw, Form
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.frozen import FrozenDict
from petabatch.spec.model import DERIVED, NonNegative
from petabatch.spec.part_errors import equation_error
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.rows import RowFunction, drawn
from petabatch.spec.schedule import NEVER, STEP, Schedule
from petabatch.spec.weights import Initial, NumberOrInitial
from petabatch.variable import LAYER_DIMS, Array, Variable

_STORED = "_stored"


class Neurons(Layer):
    """Units by their equations: neurons with or without spikes, oscillators, any system dx/dt = f(x, t).

    A step of a unit: what arrives is added to the variables, the spike of the step before resets them, the
    equations are integrated, and the spike condition is tested. Its activity is 1 where it spikes, 0
    elsewhere; without `spike` that of `activity`. Others see it in the next step at the earliest, so that
    connections from such a layer close no cycle. See [equations](equations.md).
    """

    targets: ClassVar[bool] = True
    later: ClassVar[bool] = True
    diverges: ClassVar[str] = (
        "a solution may grow without bound, or the step be too large: lower run.dt (`petabatch check` shows "
        "the limit where it is known), or choose another `method`"
    )
    type: Literal["neurons"] = "neurons"
    equations: str
    """Equations, one in each line: `dv/dt = ...` of a variable, `: unless refractory` at its end where it
    stands still in refractory units; `w = ...` of an algebraic one. They may use variables, `parameters`,
    `currents`, the time `t`, `dt`, and white noise `xi`."""
    parameters: NumberOrInitial = Field(default_factory=FrozenDict)
    """Parameters of the equations by name: a number, or an initialiser for a value of each unit."""
    currents: tuple[str, ...] = ()
    """Names in the equations that stand for what connections with this `target` deliver in a step."""
    spike: str | None = None
    """Condition at which a unit spikes, such as `v > -50`."""
    reset: str | None = None  # type: ignore[assignment]  # of other layers, a schedule
    """Statements of a unit that has spiked, such as `v = -60; w += 0.1`, made in the next step."""
    reset_to: None = None
    """Not used: variables are reset by spikes."""
    refractory: NonNegative | None = None
    """Time after a spike in which a unit does not spike again, and equations `unless refractory` stand still;
    in the unit of `run.dt`."""
    activity: str | None = None
    """Activity of a layer without `spike`: an expression, by default the first variable, or the only
    definition of equations without one."""
    method: Literal["auto", "exact", "exponential_euler", "euler", "heun", "rk4", "euler_maruyama"] = "auto"
    """Integration method. `auto`: `euler_maruyama` with noise; `exact`, the propagator of a linear system, if
    the equations are linear with constant coefficients; `exponential_euler` if each is linear in its own
    variable; else `rk4`. All methods take noise that no variable multiplies."""
    start: NumberOrInitial = Field(default_factory=FrozenDict)  # type: ignore[assignment]
    """Variables in step 0, by name: a number or an initialiser, `start = { v = -60.0 }`; others are 0."""

    @model_validator(mode="after")
    def _equations_can_be_read(self, info: ValidationInfo) -> Neurons:
        # In a run that is resumed, steps that it has stored, by their texts.
        object.__setattr__(self, _STORED, (info.context or {}).get(DERIVED, {}))
        try:
            self._check_size()
            return self
        except WrongTexts as wrong:
            errors = wrong.errors
        raise ValidationError.from_exception_data(
            type(self).__name__,
            [
                InitErrorDetails(type=equation_error(error), loc=(key,), input=getattr(self, key))
                for key, error in errors
            ],
        )

    def _check_size(self) -> None:
        """Check that its step is not more than a row function can have."""
        wrong = WrongTexts()
        form, updates = self._form_of(self.step), (self.every, self.offset)
        if updates != (STEP, 0):
            error = EquationError(
                "equations advance in each step", None, expected='every = "step", offset = 0'
            )
            wrong.errors.append(("every" if self.every != STEP else "offset", error))
        for count, most, what in (
            (form.numbers, NUMBERS, "numbers: parameters and what a method derives of them"),
            (form.buffers, BUFFERS, "variables and currents"),
        ):
            if count > most:
                error = EquationError(
                    "these equations are too many", None, f"{count} {what}", f"at most {most}"
                )
                wrong.errors.append(("equations", error))
        if wrong.errors:
            raise wrong

    @cached_property
    def step(self) -> Step:
        """The lines of a step; raises WrongTexts where the texts of the layer are no equations."""
        texts = self._texts
        stored: Step | None = vars(self)[_STORED].get(texts)
        return read_step(texts) if stored is None else stored

    @property
    def context(self) -> Mapping[str, Any]:
        """What it is validated with, beside its keys."""
        return {DERIVED: vars(self)[_STORED]}

    @property
    def derived(self) -> Mapping[str, Any]:
        """Its step and the source of its row function, as a run stores them."""
        return stored_step(self._texts, self.step, self.generated)

    @property
    def _texts(self) -> Texts:
        numbers = tuple(name for name, value in self.parameters.items() if isinstance(value, float))
        units = tuple(name for name in self.parameters if name not in numbers)
        return Texts(
            self.equations, self.currents, numbers, units, self.spike, self.reset,
            self.refractory is not None, self.activity, self.method, tuple(self.start),
        )  # fmt: skip

    @property
    def generated(self) -> str:
        """The source of the row function."""
        step = self.step
        return _source(step, self._form_of(step), self._inputs_of(step))

    @property
    def channels(self) -> Mapping[str, tuple[int, float]]:  # type: ignore[override]  # of other layers, of a type
        """The targets of connections: variables and currents, each with a buffer of its own."""
        return {name: (at, 1.0) for at, name in enumerate((*self.step.system.variables, *self.currents))}

    @property
    def draws(self) -> Mapping[str, Draw]:  # type: ignore[override]
        """Random numbers of a step: white noise."""
        return dict.fromkeys(self.step.noises, "normal")

    @property
    def host_numbers(self) -> bool:
        """Noise is drawn by the host."""
        return bool(self.draws)

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero: spikes are rare."""
        return self.spike is not None

    @property
    def constants(self) -> Collection[str]:
        """Its parameters."""
        return self.parameters.keys()

    @property
    def spiking(self) -> bool:
        """Whether its activity is spikes."""
        return self.spike is not None

    @property
    def unused(self) -> Mapping[str, str]:
        """Parameters and currents that no text reads."""
        step = self.step
        equations = step.system.equations
        texts = [one.rate for one in equations.derivatives.values()]
        texts += [*equations.definitions.values(), step.seen]
        read = step.names.union(*map(names_in, texts))
        keys = (("parameters", self.parameters), ("currents", self.currents))
        return {
            f"{key}.{name}": "as no equation reads it"
            for key, names in keys
            for name in names
            if name not in read
        }

    @property
    def restarts(self) -> Schedule:
        """Never: `reset` is that of spikes."""
        return NEVER

    @property
    def starts(self) -> Mapping[str, tuple[str, Initial]]:
        """The variables that start, and the parameters that are, different in each unit."""
        tables = (("start", self.start), ("parameters", self.parameters))
        return {
            name: (f"{key}.{name}", one)
            for key, table in tables
            for name, one in table.items()
            if not isinstance(one, float)
        }

    def plain(self, keys: Sequence[str]) -> bool:
        """Say that parameters are numbers of the row function, but for those of each unit."""
        return len(keys) == 2 and keys[0] == "parameters" and keys[1] in self._values

    def compiled_rule(self) -> CompiledRule:
        """Return the generated row function."""
        step = self.step
        known = _RULES.get(step)
        if known is None:
            form = self._form_of(step)
            normal: Draw = "normal"
            source = _source(step, form, self._inputs_of(step))
            row = RowFunction(row_function(source), form, (), (normal,) * len(form.draws))
            known = _RULES[step] = CompiledRule("row", memory=True, row=row)
        assert known.row is not None
        derived = _Derived(step, known.row.form, self._values, self.refractory or 0.0)
        return changed(known, row=changed(known.row, derived=derived))

    def variables(self) -> Sequence[Variable]:
        """Declare the variables, the steps of the refractory time left, and parameters of each unit."""
        return self._variables_of(self.step)

    def _variables_of(self, step: Step) -> Sequence[Variable]:
        found = []
        for name in step.system.variables:
            one = self.start.get(name, 0.0)
            initial = one if isinstance(one, float) else 0.0
            found.append(Variable(name, self.shape, LAYER_DIMS, f"variable of d{name}/dt", initial=initial))
        if step.rests:
            text = "steps left of the refractory time"
            found.append(Variable(LEFT, self.shape, LAYER_DIMS, text, units="steps"))
        units = (name for name, one in self.parameters.items() if not isinstance(one, float))
        return (*found, *(Variable(name, self.shape, LAYER_DIMS, "parameter of each unit") for name in units))

    def restart(self, state: Mapping[str, Array], potential: Array | None) -> None:
        """Set the variables to their initial values; parameters stay."""
        for variable in self.variables():
            if variable.name not in self.parameters:
                state[variable.name][...] = variable.initial

    def prepare(self, state: Mapping[str, Array], activity: Array, dt: float) -> None:
        """Set the activity at step 0: there are no spikes before."""
        equations = self.step.system.equations
        if self.spike is not None:
            activity[...] = 0
            return
        values: dict[str, Any] = {
            **self._values,
            **dict.fromkeys(self.currents, 0.0),
            **state,  # with what arrives of variables of other layers
            "t": np.float64(0.0),
            "dt": dt,
        }
        with np.errstate(all="ignore"):
            for name in equations.needed(self.step.seen):
                values[name] = evaluate(equations.definitions[name], values)
            activity[...] = evaluate(self.step.seen, values)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Make the lines of a step on whole arrays."""
        step, xp = self.step, ctx.xp
        values: dict[str, Any] = {**step.numbers(self._values, ctx.dt, self.refractory or 0.0), **state}
        values |= dict(zip(self._inputs_of(step), drive, strict=True))
        values |= {"A": previous, "t": np.float64(ctx.clock.t(ctx.step))}
        for name in self.draws:
            noise = np.stack([drawn(self, ctx, name, number) for number in ctx.slices])
            values[name] = xp.asarray(noise.astype(activity.dtype))
        with np.errstate(all="ignore"):
            for line in step.lines:
                values[line.name] = evaluate(line.value, values, xp, activity.dtype)
        for name, line_name in step.state.items():
            state[name][...] = values[line_name]
        activity[...] = values[step.activity]

    def leaks(self, dt: float) -> Mapping[str, float]:
        """Return the factors of variables on themselves that its method derives, where it derives any."""
        return self.step.leaks(self._values, dt)

    def after_reset(
        self, state: Mapping[str, np.ndarray], activity: np.ndarray, step: int, dt: float
    ) -> Mapping[str, np.ndarray]:
        """Make the statements of the reset, with nothing that arrives, in units that have spiked."""
        spiked = activity != 0
        if self.reset is None or not spiked.any():
            return {}
        values: dict[str, Any] = {**self._values, **state, "t": Clock(dt=dt).t(step), "dt": dt}
        known = (*self.step.system.variables, *self.parameters, "t", "dt")
        found = dict[str, np.ndarray]()
        with np.errstate(all="ignore"):
            for name, value in read_statements(self.reset, self.step.system.variables, known):
                made = np.asarray(evaluate(value, values), activity.dtype)
                found[name] = values[name] = np.where(spiked, made, values[name])
        return found

    def remedy(self, variable: str) -> str:
        """Return a hint by what the equation of a variable is made of."""
        given = {*self.parameters, "dt"}
        found = hint(self.step.system.equations, self.step.seen, variable, given, self._values)
        return found or self.diverges

    def doubts(self, dt: float, batch: int, steps: int) -> Iterator[str]:
        """Yield notes on a refractory time without effect, or longer than the run, such as one in ms."""
        rest, end = self.refractory or 0.0, Clock(dt=dt).time(steps)
        if rest and not self.step.numbers(self._values, dt, rest)[STEPS]:
            yield f"`refractory` of {rest:g} is less than a step of run.dt, {dt:g}: there is none"
        elif rest >= end:
            yield f"a unit spikes once at most: `refractory` of {rest:g} is longer than the run, {end:g}"

    def remarks(self, dt: float) -> Sequence[str]:
        """Return its method and why, and the stability limit where it is known."""
        (method, reason), step = self.step.choice, self.step
        limit = stability_limit(method, step.system, self._values, dt)
        if limit is None:
            known = ""
        elif limit < dt:
            known = f"; unstable: run.dt {dt:g} is above the stability limit {limit:.4g}"
        else:
            known = f"; stable up to run.dt {limit:.4g}"
        lines = [f"method {method}, because {reason}{known}"]
        numbers = dict.fromkeys(self.parameters, 1.0) | dict.fromkeys(self.currents, 0.0) | self._values
        equations = self.step.system.equations
        if method in ("rk4", "heun") and overflows(equations, self.spike, numbers, dt):
            lines.append(
                f"{method} evaluates the equations far beyond the threshold, where they run away: spikes may "
                "be lost, and other variables be wrong; bound an exponent, as in exp(min(x, 20)), lower the "
                'threshold or run.dt, or choose method = "euler"'
            )
        return lines

    @property
    def _values(self) -> dict[str, float]:
        """The parameters that are numbers."""
        return {name: value for name, value in self.parameters.items() if isinstance(value, float)}

    def _inputs_of(self, step: Step) -> tuple[str, ...]:
        """Return what lines call the input of each buffer."""
        return (*(f"{name}__in" for name in step.system.variables), *self.currents)

    def _form_of(self, step: Step) -> Form:
        units = tuple(name for name, one in self.parameters.items() if not isinstance(one, float))
        return _form(step, tuple(step.numbers(self._values, 1.0, 0.0)), units, len(self.currents))


_RULES: WeakKeyDictionary[Step, CompiledRule] = WeakKeyDictionary()
"""The rules of steps, without numbers; layers with equal texts, whose numbers may differ, share a step."""


@lru_cache(maxsize=256)
def _form(step: Step, numbers: tuple[str, ...], units: tuple[str, ...], currents: int) -> Form:
    """Return the form of a row function, given its numbers and the parameters of each unit."""
    parameters = tuple((name, "double", 0) for name in ("dt", *(one for one in numbers if one != "dt")))
    variables = (*step.system.variables, *((LEFT,) if step.rests else ()), *units)
    variables += (BEFORE,) if "A" in step.names else ()
    buffers = len(step.system.variables) + currents
    return Form(parameters, variables, buffers, step.noises, "t" in step.names)


@lru_cache(maxsize=256)
def _source(step: Step, form: Form, inputs: tuple[str, ...]) -> str:
    """Return the source of a row function; slices that differ in numbers share it."""
    numbers = [name for name, _, _ in form.parameters]
    return row_source(step, numbers, form.variables, inputs, form.draws)


@dataclass(frozen=True)
class _Derived:
    """The numbers of a row function after dt."""

    step: Step
    form: Form
    values: Mapping[str, float]
    refractory: float

    def __call__(self, dt: float) -> tuple[float, ...]:
        found = self.step.numbers(self.values, dt, self.refractory)
        return tuple(found[name] for name, _, _ in self.form.parameters[1:])
