"""Evaluation on held-out images while a network learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import Simulator, in_memory, results
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.evaluation import Evaluation
from petabatch.errors import ParamsError
from petabatch.learning.revive import Revive
from petabatch.network.build import build
from petabatch.network.evaluation import held_out
from petabatch.network.plan import schedule
from petabatch.parallel import watchdog
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Evaluate, Network
from petabatch.spec.schedule import Every
from petabatch.spec.sweep import Sweep
from support.commands import Command, alone, contents
from support.networks import GivenImages, images, lca_network

EVALUATE = """
[evaluate]
every = "2 displays"
displays = 2
source = { type = "array", file = "held_out.npy" }
"""


@pytest.fixture
def evaluated(small: Path) -> Path:
    """A params file that learns and evaluates every two displays."""
    held = np.random.default_rng(9).normal(size=(5, 12, 12, 3))
    np.save(small.parent / "held_out.npy", (held + np.roll(held, 1, axis=2)).astype(np.float32))
    file = small.parent / "evaluated.toml"
    file.write_text(small.read_text() + EVALUATE)
    return file


def test_an_evaluation_has_the_bits_of_a_run_with_the_same_frozen_dictionary(evaluated: Path) -> None:
    with results.open(alone(evaluated, "run")) as run:
        found = run["probes/evaluate/energy_total"]
        assert found.steps.tolist() == [20, 40, 60]
        dictionary = run.weights("dictionary")
        for display in (2, 6):
            np.save(evaluated.parent / "frozen.npy", dictionary.at(display=display))
            frozen = alone(
                evaluated,
                f"frozen{display}",
                "run.displays=2",
                'layers.image.source.file="held_out.npy"',
                'connections.dictionary.init={type="file", path="frozen.npy"}',
                'connections.dictionary.normalize={type="none"}',
                'connections.dictionary.learn.every="never"',
                'probes.energy.every="display"',
                'evaluate.every="never"',
            )
            with results.open(frozen) as again:
                energy = again["probes/energy/total"][:]
            assert np.array_equal(found.at(display=display), energy.mean(axis=0))


def test_an_evaluation_under_a_simulator_counts_as_progress(evaluated: Path) -> None:
    """It may take longer than a rank that stands still is given."""
    seen: list[int] = []
    with Simulator(evaluated, mpi=False) as sim:
        assert sim._live._evaluation is not None
        advance = sim._live._evaluation._coder.advance
        sim._live._evaluation._coder.advance = (  # type: ignore[method-assign]
            lambda stop: (advance(stop), seen.append(sim._opened.running.progress))[0]  # type: ignore[func-returns-value]
        )
        sim.step(20)
    assert seen == sorted(set(seen))
    assert len(seen) > 1


def test_evaluation_changes_no_bit_of_the_run(evaluated: Path, small: Path) -> None:
    with_it, without = (
        contents(alone(evaluated, "with") / "run.h5"),
        contents(alone(small, "without") / "run.h5"),
    )
    extra = {name for name in with_it if name.startswith("probes/evaluate")}
    assert {name: value for name, value in with_it.items() if name not in extra} == without
    assert extra


@pytest.mark.mpi
def test_evaluations_have_the_same_bits_on_any_ranks(evaluated: Path, petabatch: Command) -> None:
    expected = contents(alone(evaluated, "one") / "run.h5")
    assert petabatch("run", evaluated, "--out", "two", "-q", ranks=2).returncode == 0
    assert contents(evaluated.parent / "two" / "run.h5") == expected


@pytest.mark.parametrize("kernel", ["array", "dense", "lazy"])
def test_repeated_evaluations_of_the_same_weights_are_the_same(kernel: Any) -> None:
    network = lca_network(images(2), learn=False, kernel=kernel)
    held = Evaluate.model_construct(source=GivenImages(data=images(2, seed=5)), every=Every(1, "displays"))
    network = network.model_copy(update={"evaluate": held})
    engine = Engine(schedule(build(network)), Serial(), 2)
    engine.start()
    evaluation, found = Evaluation(engine), []
    for step in drive(engine):
        if evaluation.due(step):
            evaluation.at(step)
        records = engine.recorder.take(step)
        found += [r.values for r in records if r.stream.path == "probes/evaluate/energy_total"]
    assert found[-1].shape == (4, 2)
    assert (found[-1] == found[-1][0]).all()
    alone = in_memory.run(held_out(network)).recorded["probes/energy/total"]
    assert np.array_equal(found[-1][0], alone[0])


def test_evaluations_are_progress_for_the_watchdog(evaluated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workers: list[watchdog.Worker] = []
    made: dict[int, int] = {}
    at = Evaluation.at

    @contextmanager
    def on(self: watchdog.Watch, worker: watchdog.Worker) -> Iterator[None]:
        workers.append(worker)
        yield

    def recorded(self: Evaluation, step: int) -> None:
        before = workers[0].progress
        at(self, step)
        made[step] = workers[0].progress - before

    monkeypatch.setattr(watchdog.Watch, "on", on)
    monkeypatch.setattr(Evaluation, "at", recorded)
    alone(evaluated, "watched")
    assert all(made[step] >= 20 for step in (20, 40, 60)), made


def test_networks_whose_updates_have_all_parts_are_evaluated() -> None:
    network = lca_network(images(2), mode="shared", kernel="array", displays=2)
    learns = network.connections["dictionary"].model_copy(
        update={"decorrelate": 0.01, "revive": Revive(after=50)}
    )
    held = Evaluate.model_construct(source=GivenImages(data=images(2, seed=5)), every=Every(1, "displays"))
    sweep = Sweep(values={"connections.dictionary.learn.rate": (0.5, 1.0)})
    update = {"evaluate": held, "connections": {**network.connections, "dictionary": learns}, "sweep": sweep}
    coded = in_memory.run(held_out(network.model_copy(update=update)))
    weights = coded.recorded.get("connections/dictionary/weights")
    assert weights is None
    assert coded.recorded["probes/energy/total"].shape == (1, 4)


@pytest.mark.parametrize("verb", ["check", "run"])
def test_held_out_images_that_do_not_fit_are_told_before_anything_is_written(
    evaluated: Path, petabatch: Command, verb: str
) -> None:
    np.save(evaluated.parent / "held_out.npy", np.zeros((5, 4, 4, 3), np.float32))
    found = petabatch(verb, evaluated, *(("--out", "unfit") if verb == "run" else ()))
    assert found.returncode == 2
    assert ": evaluate.source.file: " in found.stderr
    assert "evaluated.toml:" in found.stderr
    assert not (evaluated.parent / "unfit").exists()


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"layer": "V1"}, "evaluate.layer"),
        ({"layer": "imgae"}, "evaluate.layer"),
    ],
)
def test_an_evaluation_that_cannot_be_is_an_error(change: dict[str, str], key: str) -> None:
    held = Evaluate(source=GivenImages(data=images(2)), **change)
    with pytest.raises(ParamsError) as raised:
        build(lca_network(images(2)).model_copy(update={"evaluate": held}))
    assert [problem.key for problem in raised.value.problems] == [key]


def test_an_evaluation_without_probes_is_an_error() -> None:
    held = Evaluate(source=GivenImages(data=images(2)))
    network: Network = lca_network(images(2)).model_copy(update={"evaluate": held, "probes": {}})
    with pytest.raises(ParamsError, match="nothing is measured"):
        build(network)
