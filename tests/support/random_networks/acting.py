"""Which words of a network act: taken back, they leave other bits in the arrays that remain."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from itertools import islice, zip_longest
from typing import Any

from petabatch.connections import Clone
from petabatch.errors import InputError, InputFileError, NonFiniteError, ParamsError, TableError
from petabatch.sources.orders import Random
from petabatch.spec.network import Network, Output
from petabatch.spec.parts import Connection
from petabatch.spec.schedule import DISPLAY, NEVER
from petabatch.weights import L2, Uniform
from support.random_networks.pairs import VARIED, Spoken
from support.random_networks.runs import Arrays, run, unobserved, walk, with_run
from support.random_networks.values import values
from support.random_networks.words import Said, replaced, value_at

REFUSED = (InputError, InputFileError, ParamsError, TableError)
OBSERVERS = ("probes", "output")
UNSEEN = ("Run.verify", "Output.flush", "Until.probe", "Movie.end=shortest")
"""Words that must change nothing: they count when they are run and compared, as observers do.

`shortest` only limits how long a run may be.
"""
OTHERWISE: Mapping[str, Any] = {
    "order sequential": Random(), "normaliser none": L2(),
    "Neurons.method=exact": "euler", "Neurons.method=euler_maruyama": "heun",
}  # fmt: skip
"""Words that say what is done without them, too: what takes their place to see whether they act."""
LEARNED = ("learn", "decorrelate", "revive")
"""Keys of a connection that change nothing where its rule never learns."""
ALONG = {"reset": {"reset_to": None}, "learn": {"decorrelate": 0.0, "revive": None}}
"""Keys that cannot stand without another."""


def changes_nothing(one: Spoken) -> bool:
    """Return whether a word must change no bit, as those of observers."""
    return one.part.partition(".")[0] in OBSERVERS or one.said.word in UNSEEN


class Acting:
    """Finds the words of a network that act, by running it without each."""

    def __init__(self, network: Network, kernel: str = "auto", seconds: float = math.inf) -> None:
        """Run the network; raises NonFiniteError.

        After so many `seconds` of processor time no word is taken back any more; words then do not act.
        """
        self._end = time.process_time() + seconds
        self._network = with_run(unobserved(network), kernel=kernel)
        display = network.run.display
        self._stops = (2, display, display + 1, 2 * display + 1)
        self._states = run(self._network, self._stops).states
        self._known: dict[Spoken, bool] = {}
        self._learning: dict[str, Acting] = {}

    def __call__(self, one: Spoken) -> bool:
        """Return whether a word acts; observers do."""
        if one not in self._known:
            if not changes_nothing(one) and time.process_time() > self._end:
                return False
            self._known[one] = self._acts(one)
        return self._known[one]

    def knows(self, one: Spoken) -> bool:
        """Return whether it has been seen if a word acts."""
        return one in self._known

    def _acts(self, one: Spoken) -> bool:
        part, said = one
        kind, _, name = part.partition(".")
        if changes_nothing(one):
            return True
        if kind == "layers" and said.of_table and said.path in ((), ("source",)):
            return any(state[f"layers/{name}/A"].any() for state in self._states)
        if kind == "connections" and said.path and said.path[0] in LEARNED and self._never_learns(name, said):
            try:
                return self._where_it_learns(name)(one)
            except (NonFiniteError, *REFUSED):
                return False
        for other in self._without(kind, name, said):
            try:
                return self._differs(walk(other, self._stops))
            except NonFiniteError:
                return True
            except REFUSED:
                continue
        return True  # the network cannot be without it

    def _never_learns(self, name: str, said: Said) -> bool:
        """Return whether a word is about a rule that never learns, other than that it does not."""
        rule = getattr(self._network.connections[name], "learn", None)
        return rule is not None and rule.every == NEVER and said.path != ("learn", "every")

    def _where_it_learns(self, name: str) -> Acting:
        """Return the same for the network in which the rule of a connection learns in each display.

        What is said of a rule that never learns acts where it would without `never`.
        """
        if name not in self._learning:
            learns = replaced(self._network.connections[name], ("learn", "every"), DISPLAY)
            connections = {**self._network.connections, name: learns}
            network = self._network.model_copy(update={"connections": connections, "sweep": None})
            self._learning[name] = Acting(network, self._network.run.kernel)
        return self._learning[name]

    def _differs(self, found: Iterator[Arrays]) -> bool:
        """Return whether states differ; a run that ends earlier does."""
        return any(
            state is None or other is None or _differ(state, other)
            for state, other in zip_longest(self._states, islice(found, len(self._states)))
        )

    def _without(self, kind: str, name: str, said: Said) -> Iterator[Network]:
        """Yield networks that differ in this alone, the one that lacks it first."""
        network, path = self._network, said.path
        if path and path[0] in VARIED[:2]:
            varied = {key: one for key, one in getattr(network, path[0]).items() if key != path[1]}
            yield network.model_copy(update={path[0]: varied})
        elif path and path[0] == "sweep":
            yield network.model_copy(update={"sweep": None})
        elif kind == "run":
            yield from (network.model_copy(update={"run": other}) for other in _others(network.run, said))
        elif not path:
            yield without(network, {name})
        else:
            tables: Mapping[str, Any] = getattr(network, kind)
            for other in _others(tables[name], said):
                changed = {**tables, name: other}
                if path == ("learn",):
                    changed = {key: _still(one, name) for key, one in changed.items()}
                yield network.model_copy(update={kind: changed})


def _differ(state: Arrays, other: Arrays) -> bool:
    return any(other[key].tobytes() != array.tobytes() for key, array in state.items() if key in other)


def without(network: Network, gone: set[str]) -> Network:
    """Return a network without connections, and without what needs them."""
    connections = network.connections
    while more := {name for name, one in connections.items() if one.borrows in gone} - gone:
        gone = gone | more
    left = {name: _alone(one, gone) for name, one in connections.items() if name not in gone}
    probes = {n: one for n, one in network.probes.items() if gone.isdisjoint(one.connections())}
    sweep = network.sweep
    if sweep is not None and any(path.split(".")[1] in gone for path in sweep.columns):
        sweep = None
    changed: dict[str, Any] = {"connections": left, "probes": probes, "output": Output(), "sweep": sweep}
    for way in VARIED[:2]:
        tables = getattr(network, way).items()
        changed[way] = {path: one for path, one in tables if path.split(".")[1] not in gone}
    until = {} if probes.keys() == network.probes.keys() else {"until": None}
    return with_run(network.model_copy(update=changed), **until)


def _alone(one: Connection, gone: set[str]) -> Connection:
    """Return a connection that is not normalised together with those that are gone."""
    rule = getattr(one, "normalize", None)
    together = rule is not None and not gone.isdisjoint(rule.together)
    return replaced(one, ("normalize", "together"), ()) if together else one


def _still(one: Connection, owner: str) -> Connection:
    """Return a connection through which the weights of another do not learn."""
    return one.model_copy(update={"error": None}) if isinstance(one, Clone) and one.of == owner else one


def _others(part: Any, said: Said) -> Iterator[Any]:
    """Yield a part without what is said, then with other values of it."""
    *inner, key = path = said.path
    table = value_at(part, tuple(inner))
    instead: list[Any] = [None]
    if said.word in OTHERWISE:
        instead = [OTHERWISE[said.word]]
    elif not isinstance(table, tuple | dict):
        field = type(table).model_fields[key]
        usual = [] if field.is_required() else [field.get_default(call_default_factory=True)]
        instead = [Uniform(low=0.1, high=0.2)] if key == "init" else [*usual, *values(type(table), key)]
    for value in instead:
        try:
            other = replaced(part, path, value)
            for along, left in ALONG.get(key, {}).items() if value in (None, NEVER) else ():
                other = replaced(other, (*inner, along), left)
            yield other
        except TableError:
            continue
