"""Periods of a plan: of flushes, checkpoints, judgements, and blocks of steps after which lanes meet."""

from __future__ import annotations

import math

from petabatch.clock import Clock
from petabatch.network.graph import Graph
from petabatch.network.method import Method
from petabatch.network.recordings import Recording
from petabatch.spec.schedule import Every

BLOCK_OPERATIONS = 4e10
"""Floating-point operations after which lanes meet at the latest, so that stop signals are handled:
seconds of one core."""
GPU_SPEED, LOOP_SPEED = 1000, 5
"""Approximate speed of a GPU and of a compiled loop, relative to layer-by-layer steps."""
LANE_OPERATIONS = 2e9
"""Minimum operations per slice between sync events (about 10 ms), so that starting a lane and loading its
state into cache are negligible."""
JUDGED_OPERATIONS = 2e8
"""Operations of a slice between two steps at which its numbers are judged (at least some milliseconds), so
that looking at them, and keeping a copy, is negligible."""
UNIT_OPERATIONS, STEP_OPERATIONS = 20, 200
"""Operations of a unit in a step, apart from what arrives, and of a step of a slice whatever it has."""
FLUSH_BYTES = 128 * 2**20
"""What is recorded goes to disk before it takes more memory than this."""


def most_steps(graph: Graph, method: Method, operations: int) -> int:
    """Return the maximum number of steps between sync events; `operations` are those of a slice and step."""
    run = graph.network.run
    speed = GPU_SPEED if run.device == "gpu" else 1 if method.by_layers else LOOP_SPEED
    most = max(1, int(speed * BLOCK_OPERATIONS / (graph.network.batch * operations)))
    return most if method.by_layers else max(most, int(LANE_OPERATIONS / operations))


def block_period(graph: Graph, most: int) -> int:
    """Return the period in which lanes meet: a whole fraction of a display where possible, up to `most`.

    Slices that show no images, or are done early, go on to their next display.
    """
    run = graph.network.run
    block = max(1, run.display // -(-run.display // most))
    return block * max(1, run.clock.complete(most)) if run.until is not None or not graph.shows else block


def judgement_period(graph: Graph, multiply_adds: int) -> int:
    """Return the period in which it is judged whether the numbers of a slice are finite.

    With images, a display; else a power of ten steps. It follows from the shapes of the network alone, so
    that a slice stops at the same step in whatever batch, on whatever device, and whatever its own numbers
    are: of synapses that are drawn, each slice may have another number.
    """
    if graph.shows:
        return graph.network.run.display
    steps = int(JUDGED_OPERATIONS / (multiply_adds + beside_arrivals(graph)))
    return int(10 ** math.floor(math.log10(max(1, steps))))


def beside_arrivals(graph: Graph) -> int:
    """Return the operations of a step of a slice, apart from what arrives over connections."""
    units = sum(math.prod(layer.shape) for layer in graph.network.layers.values())
    return UNIT_OPERATIONS * units + STEP_OPERATIONS


def checkpoint_period(every: Every | None, clock: Clock) -> int:
    """Return the period of checkpoints in steps: by default at least 50 displays and 1000 steps."""
    default = clock.length(max(50, clock.begun(1000)))
    return every.steps(clock.display) if every is not None else default


def flush_period(recordings: tuple[Recording, ...], clock: Clock, seconds: int) -> int:
    """Return a period of ten displays, or what fits in memory; derived from the description alone.

    Of very short displays it is more, since each flush writes a file: as many as are made in `seconds`, a
    number of steps, up to the default period of checkpoints.
    """
    per_step = 0.0
    for recording in recordings:
        per_step += recording.stream.nbytes / recording.period if recording.period else 0
    fits = int(FLUSH_BYTES / per_step) if per_step else FLUSH_BYTES
    steps = min(fits, max(clock.length(10), min(seconds, checkpoint_period(None, clock))))
    return max(1, clock.length(clock.complete(steps)) or steps)
