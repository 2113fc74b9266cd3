"""The sink that a run's directory is for."""

from __future__ import annotations

from petabatch.clock import fired
from petabatch.engine.engine import Engine
from petabatch.storage.directory import RunDirectory
from petabatch.storage.segments import Segments
from petabatch.storage.sink import RunSink
from petabatch.storage.zarr3.chunks import chunk_shape
from petabatch.storage.zarr3.sink import Chunks

_DISPLAYS = 10
"""Displays whose records have room in a chunk, if they are few."""


def sink_of(directory: RunDirectory, engine: Engine) -> RunSink:
    """Return the sink of what an engine records: chunks of a Zarr store, or segments in HDF5."""
    recordings, comm, state = engine.features.whole_plan.recordings, engine.comm, engine.state
    network = engine.plan.graph.network
    streams = [one for recording in recordings for one in recording.streams]
    if not directory.in_zarr:
        return Segments(directory, streams, network.batch, comm.rank, state.lo, state.hi)
    steps = network.run.clock.length(_DISPLAYS)
    chunks = {
        one.path: chunk_shape(one, fired(recording.period, steps) if recording.period else 1)
        for recording in recordings
        for one in recording.streams
    }
    return Chunks(directory, streams, network.batch, comm, state.lo, state.hi, chunks)
