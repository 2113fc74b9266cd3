"""The sink that a run's directory is for."""

from __future__ import annotations

from petabatch.clock import fired
from petabatch.engine.engine import Engine
from petabatch.storage.directory import RunDirectory
from petabatch.storage.sink import RunSink, Share

_DISPLAYS = 10


def sink_of(directory: RunDirectory, engine: Engine) -> RunSink:
    """Return the sink of what an engine records, of the format of the directory."""
    recordings, state = engine.features.whole_plan.recordings, engine.state
    network = engine.plan.graph.network
    steps = network.run.clock.length(_DISPLAYS)
    often = {
        one.path: fired(recording.period, steps) if recording.period else 1
        for recording in recordings
        for one in recording.streams
    }
    streams = [one for recording in recordings for one in recording.streams]
    share = Share(streams, often, network.batch, state.lo, state.hi, engine.comm)
    return directory.format.sink(directory, share)
