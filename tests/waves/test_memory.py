"""Memory of waves: that of one of them, however many there are, and whatever they record."""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import simulation
from petabatch.engine.engine import Engine
from petabatch.errors import StorageError
from petabatch.storage import points_writer, segment
from petabatch.storage.point_rows import Rows
from petabatch.waves import checkpoints, index
from petabatch.waves.plan import Waves
from petabatch.waves.queue import Parts
from support.commands import datasets, write_small

FROZEN = ("connections.dictionary.learn.every='never'", "run.displays=3", "output.flush=7")
SWEEP = "sweep.layers.V1.threshold=[0.2, 0.25, 0.3, 0.35, 0.4]"


def swept(file: Path, name: str, *settings: str, extend: bool = False) -> dict[str, np.ndarray]:
    """Return all datasets of a sweep."""
    loaded = simulation.read(file, [*FROZEN, *settings])
    simulation.run(loaded, file.parent / name, mpi=False, quiet=True, extend=extend).close()
    return datasets(file.parent / name / "run.h5")


@pytest.mark.parametrize("ways", [("disk",), ("blocks",), ("chunks",), ("chunks", "disk", "merged")])
def test_records_that_do_not_fit_into_memory_are_the_same(
    tmp_path: Path, ways: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On disk until a wave ends, copied in blocks, or as they are compressed; also in another order."""
    file = write_small(tmp_path)
    expected = swept(file, "whole", SWEEP)
    if "disk" in ways:
        monkeypatch.setattr(checkpoints, "ON_DISK", 0)
    if "blocks" in ways:
        monkeypatch.setattr(index, "_AT_ONCE", 0)
        monkeypatch.setattr(index, "_BLOCK", 3000)
    if "chunks" in ways:
        monkeypatch.setattr(segment, "_COMPRESSED", 64)
    if "merged" in ways:
        monkeypatch.setattr(points_writer, "_FAN", 2)
        monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    swept(file, "other", "sweep.layers.V1.threshold=[0.35, 0.2, 0.5]", "sweep.wave=1")
    found = swept(file, "other", SWEEP, "sweep.wave=2", extend=True)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].tobytes() == values.tobytes(), name
    assert not [path for path in (tmp_path / "other" / "checkpoints").iterdir() if path.suffix != ".h5"]


def test_what_a_wave_records_on_disk_is_not_joined_in_memory_with_other_waves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_small(tmp_path)
    expected = swept(file, "whole", SWEEP)
    plan = Waves.of(simulation.read(file, [*FROZEN, SWEEP]))
    monkeypatch.setattr(checkpoints, "ON_DISK", 3 * plan.layout.nbytes)
    joined, join = list[list[int]](), Rows.joined

    def noted(parts: Sequence[Rows]) -> Rows:
        joined.append([len(one) for one in parts])
        return join(parts)

    monkeypatch.setattr(Rows, "joined", noted)
    monkeypatch.setattr(checkpoints, "_COMMIT", 1e9)
    parts = Parts(plan.points(), np.arange(5), np.array([1, 5]))
    monkeypatch.setattr(Waves, "cut", lambda *_: parts)
    found = swept(file, "other", SWEEP, "sweep.wave=4")
    assert joined == [[1], [4]]
    assert found.keys() == expected.keys()
    assert all(found[name].tobytes() == values.tobytes() for name, values in expected.items())


def test_a_full_disk_is_told_before_points_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoints, "ON_DISK", 0)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match="cannot be written: No space left on device"):
        swept(write_small(tmp_path), "out", SWEEP)


def test_engines_of_waves_that_are_done_are_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_small(tmp_path)
    given = ["connections.dictionary.learn.every='never'", "run.displays=1"]
    loaded = simulation.read(file, given)
    points = {"layers.V1.threshold": [0.2 + 0.01 * number for number in range(12)]}
    made, init = list[weakref.ref[Engine]](), Engine.__init__

    def noted(self: Engine, *arguments: Any) -> None:
        made.append(weakref.ref(self))
        init(self, *arguments)

    monkeypatch.setattr(Engine, "__init__", noted)
    most = 0
    for _ in petabatch.sweep(loaded, points, wave=1, threads=1):
        most = max(most, sum(one() is not None for one in made))
    assert len(made) == 12
    assert most <= 2
