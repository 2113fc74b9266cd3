"""The state at the end of a sweep: one checkpoint of the waves of all ranks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from petabatch.engine.failure import Failure
from petabatch.params import read
from petabatch.storage.checkpoint import latest_checkpoint, load_checkpoint
from petabatch.storage.directory import RunDirectory
from petabatch.waves.checkpoints import End, save_end
from support.rank_threads import Thread, on_threads

SHARED = np.arange(3.0)[None]


def end(numbers: list[int]) -> End:
    """Return the state of a wave of some slices: that of a slice is its number; the last has failed."""
    arrays = {"own": np.array(numbers, float)[:, None], "shared": SHARED}
    return End(numbers, 7, arrays, {"own"}, {len(numbers) - 1: Failure("why", 3)})


def saved(small: Path, ranks: list[list[list[int]]]) -> Path | None:
    """Return the checkpoint of a sweep of five slices, of which ranks had waves with these."""
    directory, network = RunDirectory.create(small.parent / "run", ""), read(small, ["run.batch=5"]).network

    def rank(comm: Thread) -> None:
        save_end(directory, network, [end(numbers) for numbers in ranks[comm.rank]], comm)

    on_threads(len(ranks), rank)
    return latest_checkpoint(directory)


@pytest.mark.parametrize(
    "ranks", [[[[0, 1, 2, 3, 4]]], [[[0, 1, 2]], [[3, 4]]], [[[3, 4]], [[0, 1, 2]]], [[], [[0, 1, 2, 3, 4]]]]
)
def test_the_waves_of_ranks_are_one_checkpoint_in_any_order(
    small: Path, ranks: list[list[list[int]]]
) -> None:
    head = saved(small, ranks)
    assert head is not None
    arrays, meta = load_checkpoint(head, 0, 5)
    assert arrays["own"][:, 0].tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(arrays["shared"], SHARED)
    assert [number for number, *_ in meta["failed"]] == sorted(wave[-1] for (wave,) in filter(None, ranks))


@pytest.mark.parametrize(
    "ranks",
    [[[[0, 1, 2], [3, 4]]], [[[0, 1, 2]], [[4]]], [[[0, 1, 2]], [[2, 3, 4]]], [[[0, 2]], [[1, 3, 4]]]],
)
def test_there_is_none_unless_waves_cover_the_sweep_once(small: Path, ranks: list[list[list[int]]]) -> None:
    assert saved(small, ranks) is None
