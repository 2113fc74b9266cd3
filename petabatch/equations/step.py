"""A step of a unit: arrivals, the reset of its spike of the step before, integration, threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from petabatch.clock import Clock
from petabatch.equations.arrays import SCALARS
from petabatch.equations.blocks import Equations, Statement
from petabatch.equations.build import RESTING, Builder, Line, shown
from petabatch.equations.expression import (
    ZERO,
    Apply,
    Expression,
    Name,
    Number,
    add,
    choose,
    names_in,
    subtract,
)
from petabatch.equations.methods import DT, Choice, advance, choose_method
from petabatch.equations.prepared import Prepared
from petabatch.equations.system import System, Values

FIRED, LEFT, STEPS = "fired__", "refractory", "steps__"
"""Lines: whether the unit spiked in the step before; the steps of its refractory time that are left, a
variable of the layer; how many a refractory time has."""


@dataclass(frozen=True)
class Rules:
    """What a layer says of its units."""

    equations: Equations
    currents: tuple[str, ...] = ()
    units: frozenset[str] = frozenset()
    """Parameters that differ among units."""
    parameters: frozenset[str] = frozenset()
    """Parameters that are numbers."""
    spike: Expression | None = None
    reset: tuple[Statement, ...] = ()
    refractory: bool = False
    """Units can be refractory."""
    activity: Expression | None = None
    """What other layers see of a layer without spikes; its first variable if it is not given."""
    method: str = "auto"


@dataclass(frozen=True)
class Step:
    """The lines of a step, and where its results are."""

    system: System
    choice: Choice
    lines: tuple[Line, ...]
    state: Mapping[str, str]
    """Variables of the layer that change, and the line of the new value of each."""
    activity: str
    """The line of the activity."""
    prepared: tuple[Prepared, ...]
    rests: bool
    """Units can be refractory."""
    noises: tuple[str, ...]
    """Random numbers that lines read, normal and independent."""
    seen: Expression
    """What the activity is without spikes, in names of the equations."""

    def __hash__(self) -> int:
        """Return the identity of the object: equal texts share one."""
        return id(self)

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that lines and results read."""
        read = {name for line in self.lines for name in names_in(line.value)}
        return frozenset({*read, *self.state.values(), self.activity})

    def numbers(self, values: Values, dt: float, refractory: float) -> dict[str, float]:
        """Return the numbers that lines read and that are known before a step, by name.

        `values` are those of the parameters. A refractory time is that many steps, rounded down but for a
        thousandth of a step.
        """
        found = {**values, "dt": dt, STEPS: float(int(Clock(dt=dt).steps(refractory + 1e-3 * dt)))}
        for prepared in self.prepared:
            found |= prepared(values, dt)
        return {name: float(value) for name, value in found.items() if name in self.names}

    def leaks(self, values: Values, dt: float) -> dict[str, float]:
        """Return the factors that are known before a step of variables on themselves, by variable.

        Of those that decay by more than a thousandth, without what couples them to others.
        """
        found = dict[str, float]()
        for prepared in self.prepared:
            rates = prepared.rates(values, dt)
            about = {name: SCALARS.exp(rate * dt) for name, (_, rate) in rates.items()}
            slow = any(0 < 1 - factor < 1e-3 for factor in about.values())
            exact = prepared(values, dt) if slow else {}
            found |= {name: float(exact.get(rates[name][0], factor)) for name, factor in about.items()}
        return found

    def __str__(self) -> str:
        new = {line: name for name, line in self.state.items()}
        lines = [f"{line.name} = {shown(line.value)}" for line in self.lines]
        lines += [f"{name} = {line}" for line, name in new.items() if line != name]
        return "\n".join([*lines, f"A = {self.activity}"])


def make_step(rules: Rules) -> Step:
    """Return the step of a layer; raises EquationError where its method does not suit."""
    system = System(rules.equations, rules.parameters)
    choice = choose_method(system, rules.method)
    rests = rules.refractory and rules.spike is not None
    b = Builder(system, rests)
    b.now = {
        name: name for name in (*system.variables, *rules.currents, *rules.units, *rules.parameters, "t")
    }
    if rules.spike is not None:
        b.lines.append(Line(FIRED, Apply("!=", (Name("A"), ZERO))))
    _arrivals(b, rules, rests)
    _resets(b, rules)
    if rests:
        b.lines.append(Line(RESTING, Apply(">", (Name(LEFT), Number(1.0)))))
    advance(choice.method, b)
    state = {name: b.now[name] for name in system.variables}
    after = b.define(b.now)
    names = (*system.variables, *rules.equations.definitions)
    seen = Name(names[0]) if rules.activity is None else rules.activity
    if rules.spike is None:
        activity = b.put("activity", b.here(seen, after))
    else:
        spikes = b.here(rules.spike, after)
        if rests:
            spikes = Apply("and", (spikes, Apply("not", (Name(RESTING),))))
        spikes = b.put("spikes", spikes)
        activity = b.put("activity", Apply("int", (spikes,)))
        if rests:
            left = choose(Name(RESTING), subtract(Name(LEFT), Number(1.0)), ZERO)
            state[LEFT] = b.put("left", choose(spikes, Name(STEPS), left)).name
    lines = b.needed({**state, "A": activity.name})
    return Step(system, choice, lines, state, activity.name, tuple(b.prepared), rests, b.noises, seen)


def _arrivals(b: Builder, rules: Rules, rests: bool) -> None:
    """Add what arrives to the variables; those that pause take nothing while the unit is refractory."""
    blocked: Expression | None = None
    for name, one in rules.equations.derivatives.items():
        value = add(b.here(Name(name)), Name(f"{name}__in"))
        if one.paused and rests:
            if blocked is None:
                blocked = b.put("blocked", Apply("or", (Name(FIRED), Apply(">", (Name(LEFT), ZERO)))))
            value = choose(blocked, b.here(Name(name)), value)
        b.set(name, value)


def _resets(b: Builder, rules: Rules) -> None:
    """Add the statements of the reset, in order, at the time of the spike."""
    if not rules.reset:
        return
    then = b.put("t", subtract(Name("t"), DT)).name
    for variable, value in rules.reset:
        new = b.here(value, {**b.now, "t": then})
        b.set(variable, choose(Name(FIRED), new, b.here(Name(variable))))
