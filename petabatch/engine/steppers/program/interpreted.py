"""Layers that a program leaves to the interpreter: one update of several slices at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from petabatch.engine.backend import Operation
from petabatch.engine.deliveries import Deliveries
from petabatch.engine.failure import OF_A_SLICE
from petabatch.engine.steppers.base import Stepper
from petabatch.engine.steppers.failing import Fails, fails_alone
from petabatch.engine.steppers.layers import layer_operation
from petabatch.engine.steppers.program.one_by_one import OneByOne
from petabatch.errors import PartError, PetabatchError
from petabatch.spec.parts import StepContext
from petabatch.variable import Array

Drive = Callable[[int], Sequence[Array]]


class InterpretedLayer:
    """A layer of slices that are advanced together; those whose layer has the same values share an update."""

    def __init__(self, name: str, steppers: Sequence[Stepper], drives: Sequence[np.ndarray]) -> None:
        """Take the steppers of the slices, each with a lane of its own.

        `drives` is its input as compiled operations sum it up, an array `[slices, ny, nx, nf]` for each
        buffer; empty if they do not.
        """
        alike: dict[tuple[int, int, float], list[int]] = {}
        for place, bound in enumerate(one.bound for one in steppers):
            layer = bound.plan.graph.network.layers[name]
            alike.setdefault((id(layer), bound.ctx.seed, bound.ctx.dt), []).append(place)
        self._updates = [
            _Update(name, [steppers[place] for place in places], [_Some(drive, places) for drive in drives])
            for places in alike.values()
        ]

    def advance(self, step: int) -> None:
        """Make the step; raises PartError when a slice depends on others.

        An error of the update in a slice that may fail alone is its stepper's.
        """
        for update in self._updates:
            update.make(step)


class _Some:
    """Some rows of an array: a view where they follow each other, else a copy."""

    def __init__(self, whole: Array, rows: Sequence[int]) -> None:
        first, self._whole = rows[0], whole
        follow = list(rows) == list(range(first, first + len(rows)))
        self._rows = None if follow else np.array(rows)
        self.array: Array = whole[first : first + len(rows)] if follow else whole[self._rows]

    def load(self) -> None:
        """Bring a copy up to date."""
        if self._rows is not None:
            np.take(self._whole, self._rows, 0, self.array)

    def store(self) -> None:
        """Write a copy back."""
        if self._rows is not None:
            self._whole[self._rows] = self.array


class _Input:
    """What arrives at the layer in a step, gathered once: synapses with delays deliver each spike once."""

    def __init__(self, gathers: Sequence[Callable[[int], Sequence[Array]]], drives: Sequence[_Some]) -> None:
        """Take what gathers the input of each slice, or the `drives` of all."""
        self._gathers, self._arrived, self._there = gathers, [some.array for some in drives], False

    def begin(self) -> None:
        """Begin a step."""
        self._there = not self._gathers

    def of(self, step: int, place: slice) -> Sequence[Array]:
        """Return a copy for the slices in a place: an update may change what it is given."""
        return [arrived[place].copy() for arrived in self(step)]

    def __call__(self, step: int) -> Sequence[Array]:
        """Return an array for each buffer, of all slices."""
        for place, gather in enumerate(() if self._there else self._gathers):
            found = gather(step)
            if not self._arrived:
                self._arrived = [np.zeros((len(self._gathers), *one.shape[1:]), one.dtype) for one in found]
            for arrived, (one,) in zip(self._arrived, found, strict=True):
                arrived[place] = one
        self._there = True
        return self._arrived


class _Update:
    """The update of slices that are alike."""

    def __init__(self, name: str, steppers: Sequence[Stepper], drives: Sequence[_Some]) -> None:
        bounds = [one.bound for one in steppers]
        first, lanes = bounds[0], [bound.lanes.start for bound in bounds]
        graph, variables = first.plan.graph, first.plan.variables
        whole, layer = first.backend.arrays.lane(slice(None)), graph.network.layers[name]
        mine, read = (
            {key: _Some(whole[key], lanes) for key in _keys(whole, of) if variables[key].per == "slice"}
            for of in (name, layer.reset_to)
        )
        self._name, self._layer, self._mine = name, layer, mine
        self._loaded = [*(read | mine).values(), *drives]
        self._input = _Input([] if drives else [bound.deliveries.drive(name) for bound in bounds], drives)
        numbers = tuple(bound.ctx.slices[0] for bound in bounds)
        self._slices = [bound.slices.start for bound in bounds]
        self._ctx = replace(first.ctx, slices=numbers, layer=name)
        network = {key: whole[key] for key in _keys(whole, name) if key not in mine}
        arrays = {**network, **{key: some.array for key, some in (read | mine).items()}}
        kernels, features, tag = first.deliveries.kernels, first.deliveries.features, first.lanes.start

        def potential(of: Mapping[str, Array]) -> Callable[[int], Array | None]:
            return Deliveries(graph, kernels, of, {}, features, tag).potential(name)

        def operation(
            of: Mapping[str, Array],
            drive: Drive,
            fails: Fails | None = None,
            skip: Callable[[int], None] | None = None,
        ) -> Operation:
            tile = first.deliveries.tile(name)
            return layer_operation(graph, name, of, drive, potential(of), tile=tile, fails=fails, skip=skip)

        several, alone = len(bounds) > 1, fails_alone(first.plan, name)
        self._one_by_one: OneByOne | None = None
        if several and alone:

            def update(place: int, fails: Fails) -> Operation:
                here = slice(place, place + 1)
                cut = {key: array if key in network else array[here] for key, array in arrays.items()}
                return operation(cut, partial(self._input.of, place=here), fails)

            own = {key: some.array for key, some in mine.items()}
            self._one_by_one = OneByOne(steppers, own, update)
        given: Drive = self._input if self._one_by_one is None else partial(self._input.of, place=slice(None))
        skips = [] if drives else [bound.deliveries.skip(name) for bound in bounds]

        def skip(step: int) -> None:
            for advance in skips:
                advance(step)

        self._operate = operation(arrays, given, steppers[0].fail if alone and not several else None, skip)
        # The last slice is sometimes updated alone as well, on copies.
        self._copies = {key: array[-1:].copy() for key, array in arrays.items()} if several else {}
        self._originals = {key: arrays[key][-1:] for key in self._copies}
        if self._copies:
            self._alone = operation(self._copies, partial(self._input.of, place=slice(-1, None)))

    def make(self, step: int) -> None:
        """Make the step; in steps 1, 2, 4, 8 ... see that the last slice does not depend on the others."""
        for some in self._loaded:
            some.load()
        self._input.begin()
        ctx, compared = replace(self._ctx, step=step), self._copies and step & (step - 1) == 0
        error = self._made_alone(replace(ctx, slices=ctx.slices[-1:])) if compared else None
        if self._one_by_one is not None:
            self._one_by_one.keep()
        try:
            self._operate(ctx)
        except OF_A_SLICE as raised:
            raised.slices = self._slices
            if self._one_by_one is None:
                raise
            self._one_by_one.make(ctx, raised)
        else:
            if error is not None:  # which the last slice has alone, but not with others
                raise error
            if compared:
                self._compare(ctx)
        for some in self._mine.values():
            some.store()

    def _made_alone(self, ctx: StepContext) -> PetabatchError | None:
        """Make the step of the last slice on copies; return the error that it raises."""
        for key, copy in self._copies.items():
            copy[...] = self._originals[key]
        try:
            self._alone(ctx)
        except OF_A_SLICE as error:
            error.slices = self._slices[-1:]
            return error
        return None

    def _compare(self, ctx: StepContext) -> None:
        """Raise PartError when an array of the last slice is another one alone."""
        for key in self._mine:
            alone, together = self._copies[key], self._originals[key]
            differ = alone.reshape(-1, 1).view(np.uint8) != together.reshape(-1, 1).view(np.uint8)
            if not differ.any():  # bits, of which 0.0 and -0.0 have different ones
                continue
            place = int(np.flatnonzero(differ.any(axis=1))[0])
            found = f"{key.rpartition('/')[2]} of slice {ctx.slices[-1]} is {alone.flat[place]} alone, "
            raise PartError(
                f"layers.{self._name}: the type {self._layer.type} does not treat slices apart, in step "
                f"{ctx.step}\n"
                f"    found:    {found}{together.flat[place]} with {len(ctx.slices) - 1} others\n"
                "    expected: the same bits of a slice, whatever other slices `update` is called with\n"
                "    hint:     sum within a slice; a matrix product over all slices rounds by their number, "
                "np.matmul of [slices, 1, units] does not; draw random numbers slice by slice"
            )


def _keys(arrays: Mapping[str, Array], layer: str | None) -> list[str]:
    return [key for key in arrays if layer is not None and key.startswith(f"layers/{layer}/")]
