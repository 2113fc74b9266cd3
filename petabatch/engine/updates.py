"""Weight updates that sum over all slices: exactly, fast, or exactly but one update late."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from petabatch.engine.state import State, owned
from petabatch.engine.weight_update import SUMMED, change, normalise
from petabatch.network.plan import Plan, UpdateSchedule
from petabatch.parallel.comm import Comm, Sums
from petabatch.parallel.consistency import assert_identical
from petabatch.parallel.reduce import ExactSum
from petabatch.variable import Array


class LateSum(Protocol):
    """A sum on its way; see `ExactSum`."""

    def test(self) -> bool:
        """Push the sums on without waiting, and say whether they are done."""

    def wait(self) -> dict[str, np.ndarray]:
        """Return each sum."""


class Updates:
    """The lessons of connections whose weights all slices share, in groups that always fall due together.

    A group's sums travel in one message. With `reduce = "overlapped"` they travel while the lanes make the
    next steps, and are applied at the group's next update: weights are then one update late, on one rank as
    on many, so that the number of ranks still changes no bit.
    """

    def __init__(self, plan: Plan, comm: Comm, state: State) -> None:
        self.plan, self.comm, self.state = plan, comm, state
        self.products: Mapping[str, Array] = state.arrays
        """Where the lanes leave what is summed: the state's own arrays, or those on a GPU."""
        self.run = plan.graph.network.run
        groups: dict[tuple[int, int], list[UpdateSchedule]] = {}
        for schedule in plan.weight_updates:
            if schedule.reduced:
                groups.setdefault((schedule.period, schedule.offset), []).append(schedule)
        self.groups = list(groups.values())
        self.sums: Sums = comm
        """What sums them over ranks."""
        self.late: dict[int, LateSum] = {}
        self.late_sum: Callable[[dict[str, Array], Sums, int, int], LateSum] = ExactSum
        """What begins a sum that is waited for later."""

    def due(self, step: int) -> bool:
        """Say whether weights are updated at the end of `step`."""
        return any(group[0].due(step) for group in self.groups)

    def make(self, step: int) -> None:
        """Make the updates that are due at the end of `step`; collective.

        Raises NonFiniteError, or RanksDisagree when a check of the weights over ranks is due and fails.
        """
        due = {index: group for index, group in enumerate(self.groups) if group[0].due(step)}
        changed = set()
        for index, group in due.items():
            sums = self._sums(index, group, step)
            if sums is not None:
                for schedule in group:
                    self._change(schedule, step, sums)
                    changed.add(schedule.name)
        if changed:
            normalise(self.plan.graph, self.state.arrays, np, changed)
        for group in due.values():
            if self.run.verify and (group[0].update(step) + 1) % self.run.verify == 0:
                self._verify(group)
        self.state.refresh()

    def poll(self) -> None:
        """Push sums on that are on their way; MPI moves them only when it is called."""
        for sums in self.late.values():
            sums.test()

    def settle(self) -> None:
        """Finish what is on its way and keep it in the state, for a checkpoint."""
        for index, sums in self.late.items():
            for key, values in self._by_key(self.groups[index], sums.wait()).items():
                self.state.arrays[key][...] = values
        self.late.clear()

    def _sums(self, index: int, group: Sequence[UpdateSchedule], step: int) -> Mapping[str, Array] | None:
        """Return the sums to apply now; None when the first late ones are only being sent."""
        parts = {
            _called(schedule.name, kind): self.products[key]
            for schedule in group
            for kind in SUMMED
            if (key := f"connections/{schedule.name}/{kind}") in self.products
        }
        batch, first = self.run.batch, self.state.lo
        if self.run.reduce == "exact":
            return ExactSum(parts, self.sums, batch, first).wait()
        before = self._late(index, group, parts) if group[0].update(step) > 0 else None
        copies = {name: values.copy() for name, values in parts.items()}
        self.late[index] = self.late_sum(copies, self.sums, batch, first)
        return before

    def _late(
        self, index: int, group: Sequence[UpdateSchedule], parts: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """Return the sums of the update before: just arrived, or as a checkpoint kept them."""
        if index in self.late:
            return self.late.pop(index).wait()
        return {
            _called(schedule.name, kind): self.state.arrays[f"connections/{schedule.name}/late_{kind}"]
            for schedule in group
            for kind in SUMMED
            if _called(schedule.name, kind) in parts
        }

    def _by_key(self, group: Sequence[UpdateSchedule], sums: Mapping[str, Array]) -> dict[str, Array]:
        return {
            f"connections/{schedule.name}/late_{kind}": sums[_called(schedule.name, kind)]
            for schedule in group
            for kind in SUMMED
            if _called(schedule.name, kind) in sums
        }

    def _change(self, schedule: UpdateSchedule, step: int, sums: Mapping[str, Array]) -> None:
        graph, mine = self.plan.graph, owned(self.state.arrays, f"connections/{schedule.name}")
        own = {kind: sums[called] for kind in SUMMED if (called := _called(schedule.name, kind)) in sums}
        change(graph, schedule.name, mine, own, schedule.update(step), self.run.batch, (0,), np)

    def _verify(self, group: Sequence[UpdateSchedule]) -> None:
        names = [schedule.name for schedule in group]
        assert_identical(
            self.comm,
            {f"weights of connection {n}": self.state.arrays[f"connections/{n}/weights"] for n in names},
        )


def _called(name: str, kind: str) -> str:
    """Return what a sum is called in errors."""
    return f"the {kind} of connection {name}"
