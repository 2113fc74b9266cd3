"""The stepper of a sparse-coding loop on a GPU, on the arrays of all slices of a window."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from petabatch.engine.state import owned
from petabatch.engine.steppers.base import Binding, Stepper
from petabatch.engine.steppers.probe_sums import StepProbes
from petabatch.geometry import Patches
from petabatch.kernels.cuda.gradient import Gradient
from petabatch.kernels.cuda.loop import LoopKernels
from petabatch.kernels.rules import Cell, Units, rule_number
from petabatch.network.plan import Plan
from petabatch.spec.compiled import CompiledRule, Term
from petabatch.spec.weights import Learning
from petabatch.variable import Array, host


@dataclass(frozen=True)
class BoundLoop:
    """The sparse-coding loop of a network on the arrays of some slices: constants, arrays, step control."""

    patches: Patches
    rule: CompiledRule
    cell: Cell
    dt: float
    state: Mapping[str, Array]
    """The variables of the code, by name."""
    factor: np.float32
    """error = factor * image - recon."""
    image: Array
    """`[lanes or 1, 1, ny, nx, nf]`."""
    recon: Array
    """`[lanes, 1, ny, nx, nf]`, as the next."""
    error: Array
    weights: Array
    """`[lanes or 1, groups * nf, K]` in memory order."""

    @classmethod
    def of(cls, plan: Plan, arrays: Mapping[str, Array]) -> BoundLoop:
        """Bind the loop of a plan's method."""
        loop = plan.method.loop
        image, recon, error = (arrays[f"layers/{name}/A"] for name in (loop.image, loop.recon, loop.error))
        return cls(
            loop.patches,
            loop.rule,
            loop.rule.cell(rule_number(loop.rule.name), plan.graph.network.run.dt),
            plan.graph.network.run.dt,
            owned(arrays, f"layers/{loop.code}"),
            np.float32(loop.image_factor),
            image,
            recon,
            error,
            arrays[f"connections/{loop.dictionary}/weights"],
        )

    @property
    def units(self) -> Units:
        """The arrays that the rule reads and writes; of one that keeps nothing else, `before` is V."""
        A, V = (self.state[name].reshape(-1) for name in ("A", self.rule.potential))
        return Units(A, V, self.state[self.rule.previous].reshape(-1) if self.rule.previous else V)


class CudaStepper(Stepper):
    """The loop's steps for the slices of a lane; lanes of a window are advanced in the same launches."""

    def __init__(self, bound: Binding) -> None:
        plan, method = bound.plan, bound.plan.method
        self.loop = loop = BoundLoop.of(plan, bound.arrays)
        code, error = method.loop.code, method.loop.error
        norms = Term(error, "squares"), Term(code, "sizes"), Term(code, "count")
        probes = StepProbes.of(plan, bound.deliveries.features, norms)
        if method.kernel == "step" or plan.graph.network.run.until is not None:
            probes.recordings.clear()  # the display kernel alone sums up its steps, of slices that move
        super().__init__(bound, probes)
        peers = bound.backend.peers(bound.lanes)
        assert peers is not None
        key = ("cuda", method.kernel, loop.rule.name, loop.cell.curve.structure)
        if key not in peers.made:
            peers.made[key] = WindowLoop(bound, peers.window)
        self.window: WindowLoop = peers.made[key]
        if "gradient" not in peers.made:
            peers.made["gradient"] = Gradient(bound.backend.device, loop.patches, loop.cell)
        self._gradient: Gradient = peers.made["gradient"]

    def load_weights(self) -> None:
        """Take over the weights."""
        self.window.load()

    @property
    def kind(self) -> Hashable:
        """Lanes of one window with the same kernels; see `Stepper`."""
        return id(self.window), frozenset(self.probes.recordings)

    def run(self, first: int, last: int, new_image: bool) -> Array:
        """Make steps first+1 .. last; see `Stepper`."""
        return self.run_together([self], first, last, new_image)

    def run_together(self, steppers: Sequence[Stepper], first: int, last: int, new_image: bool) -> Array:
        """Make the same steps of several lanes; see `Stepper`."""
        moving = [one for one in steppers if isinstance(one, CudaStepper)]
        watched = bool(self.probes.due(first, last).any())
        sums = self.window.run(moving, last - first, watched)
        for one in moving:
            one.reached = last
        return sums

    def products(
        self,
        step: int,
        connection: str,
        pre: str,
        against: str,
        rule: Learning,
        product: Array,
        counts: Array | None,
    ) -> bool:
        """Write the product of the code with the error; see `Stepper`."""
        loop = self.bound.plan.method.loop
        plain = type(rule).tally is Learning.tally
        if not plain or (connection, pre, against) != (loop.dictionary, loop.code, loop.error):
            return False
        self._gradient(self.loop.state["A"], self.loop.error, product, counts)
        return True

    def rates(self) -> tuple[np.ndarray, np.ndarray]:
        """Return e and 1 - e of each slice, whose time scale the lane has adapted, `[lanes]`."""
        rule, state = self.loop.rule, self.loop.state
        slices = len(self.bound.ctx.slices)
        scales = host(state["time_scale"]) if rule.scale is not None else np.ones(slices)
        both = np.array([rule.decays(self.loop.dt * float(scale)) for scale in scales], np.float32)
        return both[:, 0], both[:, 1]


class WindowLoop:
    """The kernels of all slices of a window, with the numbers of each lane."""

    def __init__(self, bound: Binding, window: slice) -> None:
        plan, device = bound.plan, bound.backend.device
        self._window, self._device = window, device
        self.loop: BoundLoop = BoundLoop.of(plan, bound.backend.arrays.lane(window))
        loop = self.loop
        self._units, lanes = loop.units, len(loop.state["A"])
        # Numbers that are compiled in need a kernel for each value; of a pool, slices take turns here.
        varies = bound.lanes != window or bool(plan.graph.network.over_time) or plan.tolerant
        common = len(loop.image) < lanes
        self.kernels = LoopKernels(
            device,
            loop.patches,
            loop.cell,
            float(loop.factor),
            lanes,
            plan.method.kernel,
            varies,
            common,
        )
        self._weights = loop.weights.reshape(len(loop.weights), loop.patches.features, loop.patches.length)
        if loop.rule.adaptive is not None:
            step, age = (loop.state[name] for name in loop.rule.adaptive)
            self._rates = step, age
        else:
            self._rates = device.xp.zeros(lanes, np.float32), device.xp.zeros(lanes, np.float32)
        self._known: dict[int, CudaStepper] = {}
        """The stepper whose numbers a lane has, by its first slice."""
        self._scaled = loop.rule.scale is not None

    def load(self) -> None:
        """Take over the weights."""
        self.kernels.load(self._weights)

    def run(self, steppers: Sequence[CudaStepper], steps: int, watched: bool) -> Array:
        """Make steps of some lanes; return their norms after each, `[steps, slices of these lanes, 3]`."""
        places = [self._place(one) for one in steppers]
        self._take_numbers(steppers, places)
        if self.kernels.numbers.varies:
            self.kernels.numbers.move(places)
        sums, loop = self.kernels.sums(steps) if watched else None, self.loop
        self.kernels.run(loop.image, loop.recon, loop.error, self._units, self._rates, steps, sums)
        columns = np.concatenate([np.arange(place.start, place.stop) for place in places])
        return host(sums)[:, columns] if sums is not None else np.zeros((steps, len(columns), 3))

    def _place(self, stepper: CudaStepper) -> slice:
        lanes = stepper.bound.lanes
        return slice(lanes.start - self._window.start, lanes.stop - self._window.start)

    def _take_numbers(self, steppers: Sequence[CudaStepper], places: Sequence[slice]) -> None:
        """Set the numbers of lanes that have others than in the last run."""
        changed = [
            (one, place)
            for one, place in zip(steppers, places, strict=True)
            if self._scaled or self._known.get(place.start) is not one
        ]
        if not changed:
            return
        rates = None if self.loop.rule.adaptive is not None else [host(one) for one in self._rates]
        for one, place in changed:
            self._known[place.start] = one
            if self.kernels.numbers.varies:
                self.kernels.numbers.set(place, one.loop.cell, float(one.loop.factor))
            if rates is not None:
                rates[0][place], rates[1][place] = one.rates()
        if self.kernels.numbers.varies:
            self.kernels.numbers.send()
        if rates is not None:
            for target, values in zip(self._rates, rates, strict=True):
                target[...] = self._device.xp.asarray(values)
