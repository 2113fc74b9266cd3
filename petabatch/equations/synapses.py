"""Events of synapses: what a spike changes, read from texts to the lines of row functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, NamedTuple, get_args

from petabatch.equations.arrays import evaluate
from petabatch.equations.blocks import Statement, read_statements
from petabatch.equations.build import Line, needed
from petabatch.equations.expression import Apply, Expression, Name, names_in, renamed
from petabatch.equations.grammar import EquationError, check_name
from petabatch.equations.read import WrongTexts

Side = Literal["pre", "post"]
"""The end of a synapse at which a unit spikes."""
Place = Literal["pre", "post", "synapse"]
"""What has a value of a variable of its own: each unit of a side, or each synapse."""
SIDES: tuple[Side, ...] = get_args(Side)
WEIGHT, DELIVERED = "w", "delivered"
"""The weight, and what an event of the pre unit delivers, in texts."""
HELD, CHANGE = "held__", "change"
"""The weight of all slices, and by how much that of a slice has changed since the last update."""
LOW, HIGH = "low__", "high__"
"""The bounds of the weight, among the numbers."""
RESERVED = {
    WEIGHT, DELIVERED, CHANGE, "weights", "starts", "targets", "delays", "pending", "sources", "incoming",
    "post_starts", "by_delay", "changed", "changed_pre", "changed_post", "usage",
}  # fmt: skip
"""Names of the arrays of a connection, and of what patches record, which no variable can have."""

_GIVEN = "numbers are given in `parameters`, layers in `factors`, variables in `traces` or `variables`"
_UNKNOWN: Mapping[Side, str] = {
    "pre": f"{_GIVEN}; what is added to `target` is `{DELIVERED}`",
    "post": _GIVEN,
}
"""Where the names of statements are given."""


def since(place: Place) -> str:
    """Return the name, in lines, of the steps since traces of a place have changed."""
    return f"since__{place}"


def rate(trace: str) -> str:
    """Return the name, in lines, of the rate of decay of a trace: dt over its time constant."""
    return f"{trace}__rate"


class SynapseTexts(NamedTuple):
    """What a rule says of synapses; see `learning/synapses.py`."""

    on_pre: str | None
    on_post: str | None
    traces: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    factors: tuple[str, ...] = ()
    """Names of activities of other layers."""
    drawn: frozenset[str] = frozenset()
    """Variables that start with a value of each synapse."""
    bounded: bool = False
    """The weight has bounds."""
    delayed: bool = False
    """Synapses have delays of their own."""
    held: bool = False
    """The weights are those of all slices, which stand still between updates."""


@dataclass(frozen=True)
class Event:
    """What a spike changes at synapses, or of the unit that spikes: lines, and where the results are."""

    lines: tuple[Line, ...]
    state: Mapping[str, str]
    """Variables that change, and the line of the new value of each."""
    delivered: str = ""
    """The name of what is delivered, of events of pre units at synapses."""
    stamped: bool = False
    """Traces are brought up to date, so that the step is noted."""

    def __hash__(self) -> int:
        """Return the identity of the object: equal texts share one."""
        return id(self)

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that lines and results read."""
        read = {name for line in self.lines for name in names_in(line.value)}
        return frozenset({*read, *self.state.values(), *([self.delivered] if self.delivered else ())})

    def apply(self, values: Mapping[str, Any], real: Any) -> tuple[dict[str, Any], Any]:
        """Return the new values of variables by name, and what is delivered; `real` is the type of arrays."""
        found = dict(values)
        for line in self.lines:
            found[line.name] = evaluate(line.value, found, real=real)
        changed = {name: found[line] for name, line in self.state.items()}
        return changed, found[self.delivered] if self.delivered else None


@dataclass(frozen=True)
class SynapseModel:
    """The variables of synapses and their events."""

    places: Mapping[str, Place]
    """By variable, but for the weight."""
    traces: tuple[str, ...]
    synapses: Mapping[Side, Event]
    """What events of a side change at each synapse."""
    units: Mapping[Side, Event]
    """What they change of the unit that spikes."""
    numbers: tuple[str, ...]
    """What lines read that is known before a step, after dt."""

    def __hash__(self) -> int:
        """Return the identity of the object: equal texts share one."""
        return id(self)

    def arrays(self, event: Event) -> tuple[str, ...]:
        """Return the names of the arrays that an event is called with, those that change first."""
        made = {*event.state, "dt", "t", *self.numbers, *(line.name for line in event.lines)}
        return (*event.state, *sorted(event.names - made))

    @cached_property
    def stamped(self) -> tuple[Place, ...]:
        """The places with traces, whose last change is noted."""
        places = {self.places[name] for name in self.traces}
        return tuple(place for place in get_args(Place) if place in places)


@lru_cache(maxsize=256)
def read_model(texts: SynapseTexts) -> SynapseModel:
    """Return the model of the texts of a rule; raises WrongTexts with everything that is wrong."""
    wrong = WrongTexts()
    own = (*texts.traces, *texts.variables)
    for key, names in (
        ("traces", texts.traces), ("variables", texts.variables), ("parameters", texts.parameters),
        ("factors", texts.factors),
    ):  # fmt: skip
        for name in names:
            wrong.attempt(key, lambda name=name: _check(name))  # type: ignore[misc]
    given = [*own, *texts.parameters, *texts.factors]
    for name in {name for name in given if given.count(name) > 1}:
        wrong.errors.append(("parameters", EquationError("this name is given twice", None, name)))
    statements = {side: _statements(texts, side, wrong) for side in SIDES}
    if texts.on_pre is None and texts.on_post is None:
        error = EquationError("nothing changes", None, "neither on_pre nor on_post", "one of them at least")
        wrong.errors.append(("on_pre", error))
    changed = {one.variable for some in statements.values() for one in some}
    for name in texts.traces if not wrong.errors else ():
        if name not in changed:
            expected = f"a statement such as {name} += 1"
            wrong.errors.append(("traces", EquationError("this trace never changes", None, name, expected)))
    if wrong.errors:
        raise wrong
    return _model(texts, statements)


def _statements(texts: SynapseTexts, side: Side, wrong: WrongTexts) -> tuple[Statement, ...]:
    """Return what a side says; errors are noted."""
    text = texts.on_pre if side == "pre" else texts.on_post
    if text is None:
        return ()
    changing = (WEIGHT, *texts.traces, *texts.variables, *((DELIVERED,) if side == "pre" else ()))
    known = (*texts.parameters, *texts.factors, "t", "dt")
    elsewhere = {} if side == "pre" else {DELIVERED: "an event of a post unit delivers nothing"}
    key, unknown = f"on_{side}", _UNKNOWN[side]
    return wrong.attempt(key, lambda: read_statements(text, changing, known, elsewhere, unknown)) or ()


def _check(name: str) -> None:
    if name in RESERVED:
        raise EquationError("this name has a meaning of its own", None, name, "another name")
    check_name(name, None)


def _model(texts: SynapseTexts, statements: Mapping[Side, Sequence[Statement]]) -> SynapseModel:
    places = _places(texts, statements)
    rates = [rate(name) for name in texts.traces]
    bounds = (LOW, HIGH) if texts.bounded else ()
    numbers = (*texts.parameters, *rates, *bounds)
    synapses, units = {}, {}
    for side, some in statements.items():
        if some or side == "pre":
            synapses[side] = _event(texts, places, side, some, "synapse")
        if any(places.get(one.variable) == side for one in some):
            units[side] = _event(texts, places, side, some, side)
    return SynapseModel(places, texts.traces, synapses, units, numbers)


def _places(texts: SynapseTexts, statements: Mapping[Side, Sequence[Statement]]) -> dict[str, Place]:
    """Return which variables units can have: those that are the same at all synapses of a unit."""
    places: dict[str, Place] = {}
    for name in (*texts.traces, *texts.variables):
        sides = [side for side, some in statements.items() if name in [one.variable for one in some]]
        # With delays of their own, synapses of a pre unit have its events at different times.
        late = texts.delayed and sides == ["pre"]
        alone = len(sides) == 1 and name not in texts.drawn and not late
        places[name] = sides[0] if alone else "synapse"
    same = {*texts.parameters, "t", "dt"}
    while True:
        apart = [
            variable
            for side, some in statements.items()
            for variable, value in some
            if places.get(variable) == side
            and any(name not in same and places.get(name) != side for name in names_in(value))
        ]
        if not apart:
            return places
        places |= dict.fromkeys(apart, "synapse")


class _Lines:
    """The lines of an event; names of texts are those of the moment: `now` has the line of each."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.now: dict[str, str] = {}

    def put(self, name: str, value: Expression) -> None:
        """Give a variable a new value, of the values of the moment."""
        value = renamed(value, self.now)
        if isinstance(value, Name):
            self.now[name] = value.name
            return
        line = f"{name}__{1 + sum(line.name.rpartition('__')[0] == name for line in self.lines)}"
        self.lines.append(Line(line, value))
        self.now[name] = line


def _event(
    texts: SynapseTexts, places: Mapping[str, Place], side: Side, some: Sequence[Statement], at: Place
) -> Event:
    """Return what an event of a side changes at a place: at synapses, or of the unit that spikes."""
    of_synapses = at == "synapse"
    seen = [name for name, place in places.items() if of_synapses or place == at]
    lines = _Lines()
    for name in texts.traces:
        if name in seen:
            passed = Apply("*", (Name(since(places[name])), Name(rate(name))))
            decay = Apply("exp", (Apply("negative", (passed,)),))
            lines.put(name, Apply("*", (Name(name), decay)))
    held = of_synapses and texts.held
    if held:
        lines.put(WEIGHT, Apply("+", (Name(HELD), Name(CHANGE))))
    if of_synapses and side == "pre":
        lines.put(DELIVERED, Name(HELD if held else WEIGHT))
    for variable, value in some:
        if of_synapses or variable in seen:
            lines.put(variable, renamed(value, {WEIGHT: HELD} if held and variable == DELIVERED else {}))
    changed = [one.variable for one in some if one.variable != DELIVERED]
    if of_synapses and texts.bounded and WEIGHT in changed:
        lines.put(WEIGHT, Apply("clip", (Name(WEIGHT), Name(LOW), Name(HIGH))))
    mine = [name for name in dict.fromkeys(changed) if places.get(name, "synapse") == at]
    if held and WEIGHT in mine:
        lines.put(CHANGE, Apply("-", (Name(WEIGHT), Name(HELD))))
        mine[mine.index(WEIGHT)] = CHANGE
    stamped = any(name in texts.traces for name in mine)
    if stamped:  # they share one step of their last change
        mine += [name for name in texts.traces if places[name] == at and name not in mine]
    state = {name: lines.now.get(name, name) for name in mine}
    delivered = lines.now[DELIVERED] if of_synapses and side == "pre" else ""
    wanted = {*state.values(), *([delivered] if delivered else ())}
    return Event(needed(lines.lines, wanted), state, delivered, stamped)
