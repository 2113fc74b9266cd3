"""Weight updates summed over all slices of all ranks: what is due, in which groups, and its application."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from petabatch.clock import fires
from petabatch.engine.agreement import agreeing
from petabatch.engine.features import Features
from petabatch.engine.finite import changed_by_updates
from petabatch.engine.reduction import Exact, Overlapped, Reduction
from petabatch.engine.state import State, owned
from petabatch.engine.weight_update import add_changes, change, normalise
from petabatch.equations.synapses import CHANGE
from petabatch.errors import NonFiniteError
from petabatch.network.graph import ACTIVE
from petabatch.network.plan import Plan
from petabatch.network.weight_updates import UpdateSchedule
from petabatch.parallel.comm import Comm
from petabatch.parallel.consistency import assert_identical
from petabatch.variable import Array


class Updates:
    """The updates of connections whose weights all slices share, in groups that always fall due together.

    A group's sums travel in one message.
    """

    def __init__(self, plan: Plan, features: Features, comm: Comm, state: State) -> None:
        """Sum over the ranks of other slices, `comm`, and of other tiles where positions share weights."""
        self.plan, self.features, self.state = plan, features, state
        self.comm = features.learners(comm)
        self.products: Mapping[str, Array] = state.arrays
        """Where lanes leave what is summed: the state's own arrays, or those on a GPU."""
        self.run = plan.graph.network.run
        self.groups = plan.summed_updates
        kind = Overlapped if self.run.reduce == "overlapped" else Exact
        tile = comm if features.terms > 1 else None
        self.reduction: Reduction = kind(state, self.comm, features.terms, tile)
        self._same: Mapping[bool, Comm] = {True: self.comm, False: tile or self.comm}
        """The ranks that have the same weights: those of all positions, or of a tile."""

    def due(self, step: int) -> bool:
        """Return whether weights are updated at the end of `step`."""
        return any(group[0].due(step) for group in self.groups)

    def make(self, step: int) -> None:
        """Make the updates that are due at the end of `step`; collective.

        Raises NonFiniteError, also when weights are then not finite, or RanksDisagree when a check of the
        weights over ranks is due and fails.
        """
        due = {index: group for index, group in enumerate(self.groups) if group[0].due(step)}
        changed = set()
        for index, group in due.items():
            with agreeing(self.features.group, 0):
                sums = self._finite_sums(index, group, step)
            for schedule in group if sums else ():
                self._change(schedule, step, sums)
                changed.add(schedule.name)
        if changed:
            names = normalise(self.plan.graph, self.features, self.state.arrays, np, changed)
            with agreeing(self.features.group, 0):
                for name in names:
                    self.state.assert_finite(
                        step, changed_by_updates(name, self.state.arrays, self.plan.variables)
                    )
        for group in due.values():
            if self.run.verify and fires(self.run.verify, group[0].update(step) + 1):
                self._verify(group)
        self.state.refresh()

    def _finite_sums(self, index: int, group: Sequence[UpdateSchedule], step: int) -> Mapping[str, Array]:
        """Return the sums to apply now; raises NonFiniteError."""
        try:
            return self._sums(index, group, step)
        except NonFiniteError as error:
            raise NonFiniteError(f"{error}, in the update of step {step}{self._layers(group)}") from None

    def _sums(self, index: int, group: Sequence[UpdateSchedule], step: int) -> Mapping[str, Array]:
        """Return the sums to apply now."""
        parts, late = {}, {}
        for schedule in group:
            place = f"connections/{schedule.name}"
            for kind in self.plan.graph.summed[schedule.name]:
                called = _called(schedule.name, kind)
                parts[called], late[called] = self.products[f"{place}/{kind}"], f"{place}/late_{kind}"
                if kind == ACTIVE and not schedule.shared:
                    self.features.add_tiles(parts[called], 0)
        return self.reduction(index, group[0].update(step), parts, late, group[0].shared)

    def _layers(self, group: Sequence[UpdateSchedule]) -> str:
        """Return what the products of a group are of, and what may have made them too large."""
        pairs = self.plan.graph.learning_pairs
        if synapses := [one.name for one in group if one.name in self.plan.graph.learning_synapses]:
            rule = f"connections.{synapses[0]}.learn"
            return f"\n    hint:     see {rule}: `bounds` keep weights between two values"
        named = self.plan.graph.network.connections
        found = [f"{named[one].pre} and {layer}" for update in group for one, layer in pairs[update.name]]
        return (
            f"\n    found:    a product of layers {' or of '.join(found)}, whose activities are too large\n"
            "    hint:     lower run.dt or raise tau (`petabatch check` shows the limit), or lower learn.rate"
        )

    def _change(self, schedule: UpdateSchedule, step: int, sums: Mapping[str, Array]) -> None:
        mine = owned(self.state.arrays, f"connections/{schedule.name}")
        kinds = self.plan.graph.summed[schedule.name]
        own = {kind: sums[_called(schedule.name, kind)] for kind in kinds}
        graph, update = self.plan.at_step(step).whole_graph, schedule.update(step)
        if schedule.name in graph.learning_synapses:
            add_changes(graph, schedule.name, mine, own[CHANGE])
            return
        change(graph, self.features, schedule.name, mine, own, update, graph.network.batch, (0,), np)

    def _verify(self, group: Sequence[UpdateSchedule]) -> None:
        names = [schedule.name for schedule in group]
        assert_identical(
            self._same[group[0].shared],
            {f"weights of connection {n}": self.state.arrays[f"connections/{n}/weights"] for n in names},
        )


def _called(name: str, kind: str) -> str:
    """Return what a sum is called in errors."""
    return f"the {kind} of connection {name}"
