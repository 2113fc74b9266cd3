"""An engine in memory with its threads, evaluation and records; an error undoes the steps that fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace

import numpy as np

from petabatch.assembly import opened
from petabatch.clock import fires
from petabatch.engine.assembly import Assembly
from petabatch.engine.finite import assert_finite, watched
from petabatch.engine.image_sizes import shape_of
from petabatch.engine.images import Instead, files_shown
from petabatch.engine.state import check_whole
from petabatch.logs import shown
from petabatch.network import lazy_codes
from petabatch.network.slices import coordinates
from petabatch.parallel.comm import Serial
from petabatch.simulator.interrupts import all_ranks_raise
from petabatch.simulator.saved import Saved
from petabatch.simulator.undo import Undo
from petabatch.spec.load import Loaded
from petabatch.storage.description import Description, Status
from petabatch.storage.memory import Memory
from petabatch.storage.provenance import of_run
from petabatch.variable import Array

_ENDLESS = 2**62
"""The length of a plan that ends when no more steps are asked for."""


class Running:
    """An engine that goes from step to step."""

    def __init__(self, loaded: Loaded, assembly: Assembly, records: Memory) -> None:
        """Open the network; the state is not set yet. `records` are those of the steps before."""
        self._loaded, self._records, self._stack, self._started = loaded, records, ExitStack(), False
        planned = assembly.planned(length=_ENDLESS)
        self.engine, self._evaluation = self._stack.enter_context(opened(loaded, planned))
        readers = self.engine.readers.values()
        self._live = [reader for reader in readers if reader.layer.source.live]
        for reader in self._live:
            reader.read_ahead = False
        plastic = self.engine.plan.graph.plastic
        changing = [
            key
            for key in self.engine.state.saved()
            if not key.startswith("connections/") or key.split("/")[1] in plastic or key.endswith("/pending")
        ]
        self._comm, self._shares = assembly.comm, self.engine.features.group.size > 1
        again = not self._live and self._comm.size == 1
        self._sync = 0, 0
        """A step, and that at whose end slices meet next."""
        self.undo: Undo | None = Undo(self.engine, changing, again)
        """What steps that fail are undone with; None where nothing goes on after an error."""

    @property
    def step(self) -> int:
        """The last step that was made."""
        return self.engine.step

    @property
    def progress(self) -> int:
        """A number that grows with the progress of any slice, and of an evaluation."""
        return self.engine.progress + (0 if self._evaluation is None else self._evaluation.progress)

    def next_sync(self) -> int:
        """Return the next step at whose end slices meet, or before which a live source is asked."""
        begin, sync = self._sync
        if not begin <= self.step < sync:
            sync = self.engine.plan.next_sync(self.step)
            self._sync = self.step, sync
        display = self.engine.plan.graph.network.run.display
        changes = [reader.layer.next_change(self.step + 1, display) for reader in self._live]
        return min([sync, *(change - 1 for change in changes if change is not None)])

    def advance(self, stop: int) -> None:
        """Make the steps up to `stop`, at most `next_sync`; collective.

        After an error, on whichever rank, none is made on any.
        """
        engine = self.engine
        if not self._started:
            with shown(False):  # kernels may be compiled
                self._stack.enter_context(engine.running())
            self._started = True
        with self.all_ranks_raise():
            self._ask_sources()
        first, undo = self.step, self.undo
        if undo is not None:
            undo.keep()
        try:
            with engine.computing():
                with self.all_ranks_raise():
                    engine.advance_lanes(stop)
                engine.meet(stop)
            if self._evaluation is not None and self._evaluation.due(stop):
                self._evaluation.at(stop)
        except BaseException:
            if undo is not None:
                undo.back_to(first)
            raise
        if fires(engine.plan.flush, stop):
            self.keep()

    def all_ranks_raise(self) -> AbstractContextManager[None]:
        """Raise an error at the end of the block on all ranks where one has raised one in it; collective."""
        return all_ranks_raise(self._comm, self._shares)

    def state_changed(self) -> None:
        """Go on from the arrays of the state as they were changed, after `Engine.collect`."""
        self.engine.state_changed()
        self._forget()

    def whole(self, key: str) -> np.ndarray:
        """Return an array of the slices of this rank, after `Engine.collect`; collective.

        It is the state's own if no other rank has a part of it.
        """
        return self.engine.features.everywhere({key: self.engine.state.arrays[key]})[key]

    def assign(self, key: str, whole: np.ndarray) -> None:
        """Go on with what has become of such an array, the same on all ranks that share the slices."""
        mine, part = self.engine.state.arrays[key], self.engine.features.part({key: whole})[key]
        if part is not mine:
            mine[...] = part
        self.state_changed()

    def image_shape(self, layer: str) -> tuple[int, int, int]:
        """Return the shape of an image of an input layer, with its margin."""
        plan = self.engine.features.whole_plan
        return shape_of(plan.graph, plan.inputs[layer], layer)

    def show(self, layer: str, images: Instead | None) -> None:
        """Show other images in an input layer than those of its source; None shows these again."""
        self.engine.show(layer, self._part(layer, images))
        self._forget()

    def _part(self, layer: str, images: Instead | None) -> Instead | None:
        """Return what this rank has of images that are shown."""
        if images is None:
            return None
        return replace(images, images=self.engine.features.part_of_layer(layer, images.images))

    def _forget(self) -> None:
        if self.undo is not None:
            self.undo.forget()

    def _ask_sources(self) -> None:
        """Take the images that live sources show in the next step."""
        state, display = self.engine.state, self.engine.plan.graph.network.run.display
        for reader in self._live:
            item, slices = reader.layer.item(self.step + 1, display), range(state.lo, state.hi)
            if item is None or (reader.instead is not None and reader.instead.holds(item)):
                continue
            images = np.stack([reader.around(number, item) for number in slices])
            reader.instead = Instead(images, state.lo, item, item)

    def keep(self) -> None:
        """Put aside what was recorded; collective for ranks that share slices."""
        if self._started:
            features, recorder = self.engine.features, self.engine.recorder
            mine = features.group.broadcast(features.records(recorder.take(self.step)))
            self._records.put(mine, recorder.first, self.step)
            self.engine.flushed()
            self._forget()  # steps before are not recorded again

    def recorded(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return steps and values of what was recorded so far, by path; collective as `keep`."""
        self.keep()
        return {one.stream.path: (one.steps, one.values) for one in self._records.joined()}

    @property
    def began(self) -> int:
        """The step before the first that was recorded."""
        return self.step if self._records.began is None else self._records.began

    def describe(self, times: Mapping[str, float], status: Status = "running") -> Callable[[], Description]:
        """Return what describes the slices of this rank to their results; it does not need the engine.

        `times` are the seconds by activity.
        """
        state, loaded, device = self.engine.state, self._loaded, self.engine.backend.name
        mine, batch = slice(state.lo, state.hi), state.hi - state.lo
        recordings = self.engine.features.whole_plan.recordings
        recorded = [one for recording in recordings for one in recording.streams]
        streams = tuple(
            replace(one, shape=(batch, *one.shape[1:])) if one.batched else one for one in recorded
        )
        files = files_shown(self.engine.readers)

        def description() -> Description:
            network = loaded.network
            about = of_run(loaded, Serial(), [device])
            about["times"] = {name: round(one, 3) for name, one in times.items()}
            differing = tuple(replace(one, values=one.values[mine]) for one in coordinates(network, recorded))
            return Description(streams, about, batch, status, files, differing)

        return description

    def arrays(self) -> dict[str, Array]:
        """Return copies of all arrays of the state, whole; collective."""
        self.engine.collect()
        return {key: array.copy() for key, array in self.saved().items()}

    def saved(self) -> Mapping[str, Array]:
        """Return the arrays of the state, whole, after `Engine.collect`; collective."""
        return self.engine.features.everywhere(self.engine.state.saved())

    @property
    def shown(self) -> dict[str, Instead]:
        """Images that are shown instead of those of a source, by layer, whole; collective."""
        features, found = self.engine.features, dict[str, Instead]()
        for layer, reader in self.engine.readers.items():
            if reader.instead is not None:
                found[layer] = replace(reader.instead, images=features.layer(layer, reader.instead.images, 0))
        return found

    def resume(self, step: int, whole: Mapping[str, Array], shown: Mapping[str, Instead]) -> None:
        """Go on from the whole state after `step`, with images shown by hand; collective.

        Raises NonFiniteError when numbers are not finite, FormatError when `check_whole` refuses them, and
        nothing has changed then.
        """
        state, arrays = self.engine.state, self.engine.features.part(whole)
        known = {key: array for key, array in arrays.items() if key in state.variables}
        mine = {key: array for key, array in known.items() if watched(state.variables[key])}
        with self.all_ranks_raise():
            assert_finite(mine, state.variables, state.graph, range(state.lo, state.hi), step)
            check_whole(state.variables, known)
        self.keep()
        self._records.forget_after(step)
        self.engine.resume(step, arrays)
        for layer, reader in self.engine.readers.items():
            reader.instead = self._part(layer, shown.get(layer))
        self.engine.backend.close()  # what was read ahead
        self._forget()
        if self._started:
            self.engine.flushed()

    def fits(self, saved: Saved) -> bool:
        """Return whether a state has the arrays of this network."""
        variables = self.engine.features.whole_plan.variables
        here = {
            key: ((len(array), *variables[key].shape), array.dtype)
            for key, array in self.engine.state.saved().items()
        }
        there = {key: (array.shape, array.dtype) for key, array in saved.arrays.items()}
        return all(there.get(key) == here[key] for key in here.keys() - lazy_codes.keys(here))

    def close(self) -> None:
        """End the threads and close the input files."""
        self._stack.close()
