"""States of simulators in files, and simulators that go on from runs."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import Simulator
from petabatch.errors import ArgumentError, PetabatchError, StorageError
from petabatch.parallel.comm import Serial
from petabatch.simulator import simulator
from support.networks import images, lca_network
from support.rank_threads import on_threads

DATA = images(3)


def assert_equal(one: Simulator, other: Simulator) -> None:
    found, expected = one.save().arrays, other.save().arrays
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        assert found[key].tobytes() == array.tobytes(), key


@pytest.mark.parametrize("kernel", ["dense", "lazy", "array"])
def test_a_file_has_all_that_was_changed_by_hand(kernel: str, tmp_path: Path) -> None:
    net, path = lca_network(DATA, kernel=kernel), tmp_path / "state.h5"
    with Simulator(net) as sim, Simulator(net) as other:
        sim.step(13)
        sim["V1"]["V"] = 0.3
        sim["V1"]["threshold"] = [0.2, 0.3, 0.4]
        sim.show("image", DATA[::-1, 1], always=True)
        sim.step(4)
        sim.save(path)
        with pytest.raises(StorageError, match="already exists"):
            sim.save(path)
        sim.save(path, force=True)
        other.load(path)
        assert (
            other.changes == sim.changes == {"layers.V1.V": 13, "layers.V1.threshold": 13, "layers.image": 13}
        )
        np.testing.assert_array_equal(other["V1"]["threshold"], [0.2, 0.3, 0.4])
        for one in (sim, other):
            one.step(30)
        assert_equal(other, sim)
        other.load(path)
        assert other.n_steps == 17


def test_no_run_goes_on_from_a_state_and_the_error_names_what_was_changed(
    small: Path, tmp_path: Path
) -> None:
    path = tmp_path / "state.h5"
    with Simulator(small) as sim:
        sim.step(5)
        sim.save(path)
        with pytest.raises(PetabatchError, match="nothing that was changed by hand"):
            petabatch.resume(path)
        sim["V1"]["V"] = 0.3
        sim.step(2)
        sim["V1"]["threshold"] = 0.5
        sim["dictionary"]["weights"] *= 0.5
        sim.show("image", 0.2, always=True)
        sim.save(path, force=True)
    changes = (
        "layers.V1.V (after step 5), layers.V1.threshold (after step 7), "
        "connections.dictionary.weights (after step 7), layers.image (after step 7)"
    )
    network = petabatch.load(small, [f"run.start_from={path}"])
    for use in (
        lambda: petabatch.resume(path),
        lambda: petabatch.open(path),
        lambda: Simulator.from_run(path),
        lambda: petabatch.run(network, tmp_path / "run", quiet=True),
    ):
        with pytest.raises(PetabatchError, match=re.escape(changes)):
            use()
    assert not (tmp_path / "run").exists()


def test_a_damaged_file_is_refused(tmp_path: Path, small: Path) -> None:
    path = tmp_path / "state.h5"
    with Simulator(lca_network(DATA)) as sim:
        sim.step(2)
        sim.save(path)
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole[: len(whole) // 2], whole[:5000] + b"x" + whole[5001:], b"", b"x"):
            path.write_bytes(damaged)
            with pytest.raises(StorageError):
                sim.load(path)
        path.write_bytes(whole)
        sim.load(path)
        with pytest.raises(StorageError, match="no such file"):
            sim.load(tmp_path / "other.h5")
        others: tuple[Any, ...] = (None, 3, {}, sim)
        for wrong in others:
            with pytest.raises(ArgumentError, match="saved"):
                sim.load(wrong)
    with Simulator(small) as other, pytest.raises(ArgumentError, match="another network"):
        other.load(path)


def test_ranks_write_one_file_that_any_number_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, net, path = threading.local(), lca_network(DATA), tmp_path / "state.h5"
    monkeypatch.setattr(simulator, "connect", lambda mpi: here.comm)
    monkeypatch.setattr(simulator, "assert_same_software", lambda comm, loaded: None)

    def write(comm: Serial) -> None:
        here.comm = comm
        with Simulator(net) as sim:
            sim.step(7)
            sim.show("image", 0.5, always=True)
            sim.save(path)

    def read(comm: Serial) -> np.ndarray:
        here.comm = comm
        with Simulator(net) as sim:
            sim.load(path)
            sim.step(20)
            return sim["V1"].gather("V")

    on_threads(2, write)
    found = on_threads(3, read)
    here.comm = Serial()
    with Simulator(net) as sim:
        sim.step(7)
        sim.show("image", 0.5, always=True)
        sim.step(20)
        for one in found:
            np.testing.assert_array_equal(one, sim["V1"]["V"])


def test_a_simulator_goes_on_from_a_run(small: Path, tmp_path: Path) -> None:
    run = petabatch.run(small, tmp_path / "run", quiet=True)
    last = run.steps_reached
    before = sorted((file.name, file.stat().st_mtime_ns) for file in (tmp_path / "run").rglob("*"))
    with Simulator(small) as whole:
        for step in (0, 5, last - 3, last, last + 4):
            whole.step(step - whole.n_steps)
            with Simulator.from_run(tmp_path / "run", step) as sim:
                assert sim.n_steps == step
                assert_equal(sim, whole)
    with Simulator.from_run(tmp_path / "run") as sim:
        assert sim.n_steps == last
    assert sorted((file.name, file.stat().st_mtime_ns) for file in (tmp_path / "run").rglob("*")) == before
    for wrong in (-1, 1.5, "x"):
        with pytest.raises(ArgumentError, match="step"):
            Simulator.from_run(tmp_path / "run", wrong)  # type: ignore[arg-type]
    with pytest.raises(PetabatchError):
        Simulator.from_run(tmp_path)
