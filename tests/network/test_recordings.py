"""Steps at whose end a stream is recorded."""

from __future__ import annotations

from itertools import product

from petabatch.network.recordings import Recording
from petabatch.variable import Stream

STREAM = Stream("layers/V1/A", (1, 1, 1, 1), ("batch", "y", "x", "feature"), "float32", batched=True)


def test_the_steps_of_a_stretch_are_those_at_which_a_stream_is_due() -> None:
    for period, offset, also in product((0, 1, 2, 3, 7), (0, 1, 2, 5, 9), ((), (0,), (0, 11), (5,))):
        one = Recording(STREAM, period, "layers/V1/A", offset, also)
        for first, last in product((0, 1, 3, 8), (0, 1, 5, 12, 20)):
            assert one.steps(first, last) == [step for step in range(first, last + 1) if one.due(step)]
            following = [step for step in range(first + 1, 50) if one.due(step)]
            assert one.next(first) == (following[0] if following else None)
