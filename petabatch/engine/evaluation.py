"""Evaluation on held-out images while a network learns, by an engine of its own with the same weights."""

from __future__ import annotations

from dataclasses import replace

from petabatch.clock import fires
from petabatch.engine.assembly import beside
from petabatch.engine.driver import Hook, drive
from petabatch.engine.engine import Engine
from petabatch.engine.failure import Failure
from petabatch.logs import log
from petabatch.network.build import build
from petabatch.network.evaluation import NAME, held_out, naming_evaluate, quantities
from petabatch.network.plan import schedule


class Evaluation(Hook):
    """Evaluates the weights of an engine, whose state it only reads; a hook of its driver."""

    def __init__(self, engine: Engine) -> None:
        """Open the held-out images; raises InputFileError if they are missing or do not fit."""
        self._engine = engine
        whole = engine.features.whole_plan
        network = whole.graph.network
        with naming_evaluate(network):
            plan = schedule(build(held_out(network)), whole.limits)
            self._coder = beside(engine, replace(plan, flush=plan.length, tolerant=whole.tolerant))
        self._note_repetitions()
        self._coded = 0
        self._rows = {path: f"probes/{NAME}/{leaf}" for leaf, path, _ in quantities(network)}

    @property
    def progress(self) -> int:
        """A number that grows with the progress of an evaluation."""
        return self._coded + self._coder.progress

    def due(self, step: int) -> bool:
        """Return whether weights are evaluated at the end of `step`."""
        return fires(self._engine.plan.evaluation, step)

    def at(self, step: int) -> None:
        """Evaluate the weights at the end of `step`, and record the results.

        A slice that fails here has failed, where slices stop alone.
        """
        engine = self._engine
        with engine.stopwatch.measure("evaluation"), engine.blocking_io:
            self._code()
        failed = self._coder.failures.items()
        engine.fail({number: Failure(f"evaluate: {one.why}", step) for number, one in failed})
        # What ranks with parts of a slice measure adds up, as all that they record of probes.
        found = {record.stream.path: record.values for record in self._coder.recorder.take(self._coder.step)}
        places = {
            self._rows[path]: values.mean(axis=0) for path, values in found.items() if path in self._rows
        }
        for index, recording in enumerate(engine.plan.recordings):
            if recording.stream.path in places:
                engine.recorder.row(index, step)[...] = places[recording.stream.path]

    def close(self) -> None:
        """Close the input files."""
        self._coder.close()

    def _note_repetitions(self) -> None:
        """Log if there are fewer held-out images than slices and displays to show them."""
        plan, readers = self._coder.plan, self._coder.readers
        run = plan.graph.network.run
        wanted = range(run.displays or 0)
        for name, layer in plan.inputs.items():
            if layer.source.traced:
                shown = [readers[name].shown(number, item) for number in range(run.batch) for item in wanted]
                if len(set(shown)) < len(shown):
                    counts = len(shown), len(set(shown))
                    log.info("note: evaluate: %d displays show %d images: some count more than once", *counts)

    def _code(self) -> None:
        """Code the held-out images from the initial state."""
        coder = self._coder
        self._engine.backend.collect()  # weights that a slice has for itself
        self._coded += coder.progress
        coder.restart()
        for key in coder.plan.graph.makes_weights:
            coder.state.arrays[key] = self._engine.state.arrays[key]
        coder.state.refresh()
        for _ in drive(coder):
            pass
