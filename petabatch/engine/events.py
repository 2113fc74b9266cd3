"""Events of all ranks: spikes, any number for each slice and step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from petabatch.engine.recorder import Record
from petabatch.parallel.comm import Comm
from petabatch.variable import Stream


def events_of_all(
    records: Sequence[Record], streams: Sequence[Stream], first: int, comm: Comm
) -> list[Record]:
    """Return records with the events of all ranks on the first one, and none on the others; collective.

    `first` is the first slice of this rank, `streams` are those of the run. Events are in the order of steps,
    slices and units, whatever the number of ranks and of flushes.
    """
    others = [one for one in records if not one.stream.events]
    columns = [one for one in streams if one.events]
    if not columns:
        return others
    mine = {
        one.stream: (one.steps, one.values + first if one.stream.leaf == "slice" else one.values)
        for one in records
        if one.stream.events
    }
    ranks = comm.gather(mine) or ()
    for stream in columns:
        parts = [rank[stream] for rank in ranks if stream in rank]
        if parts:
            steps, values = map(np.concatenate, zip(*parts, strict=True))
            order = np.argsort(steps, kind="stable")  # within a step, ranks follow each other as slices do
            others.append(Record(stream, steps[order], values[order].astype(stream.dtype)))
    return others
