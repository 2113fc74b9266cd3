"""The recorder of a rank, with the probes that count events."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from petabatch.engine.recorder import Events, Recorder
from petabatch.engine.state import State
from petabatch.network.plan import Plan
from petabatch.network.slices import own_values
from petabatch.spec.parts import Probe


def rank_recorder(plan: Plan, state: State, room: Callable[[tuple[int, ...], str], np.ndarray]) -> Recorder:
    """Return the recorder of the slices of a state, which tells probes of the events that they count."""
    network, recordings, slices = plan.graph.network, plan.recordings, range(state.lo, state.hi)
    listed = {one.key.split("/")[1]: at for at, one in enumerate(recordings) if one.stream.events}
    dt = [own_values(network, n).get("run.dt", network.run.dt) for n in slices] if listed else []
    recorder = Recorder(recordings, len(slices), room, dt)
    for name, probe in network.probes.items():
        if probe.counts is not None:
            count = partial(_count, state, name, probe)
            recorder.counters.setdefault(listed[probe.counts], []).append(count)
    return recorder


def _count(state: State, name: str, probe: Probe, lane: int, events: Events) -> None:
    """Tell a probe of the events of a local slice."""
    own = {key: array[lane, ...] for key, array in state.owned(f"probes/{name}").items()}
    probe.count(own, *events)
