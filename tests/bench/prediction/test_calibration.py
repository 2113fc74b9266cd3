"""A calibration is measured, kept, and used again for the same network only."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import params
from petabatch.bench.prediction import calibrate as measuring
from petabatch.bench.prediction import part_times as measuring_parts
from petabatch.bench.prediction.alike import alike
from petabatch.bench.prediction.calibrate import calibrate
from petabatch.bench.prediction.calibration import Calibration, PartTimes, identify, load
from petabatch.bench.prediction.part_times import part_times
from petabatch.engine.lone_part import LonePart
from petabatch.errors import ArgumentError, InputError
from petabatch.network.build import build
from petabatch.network.possible_parts import Axis
from petabatch.spec.network import Network


@pytest.fixture
def network(small: Path) -> Network:
    return params.read(small).network


@pytest.fixture
def kept(network: Network, tmp_path: Path) -> tuple[Calibration, Path]:
    found = Calibration(
        network=identify(network), title="small.toml", threads=1, slices=[[1.0, 2.0]], image=0.1,
        learning=0.2, recording=0.3, update=0.4, update_slice=0.5, event=0.6, addition=0.7, reduction=None,
        part_times={"features": [PartTimes([2, 4], {2: 0.8})]}, machine={"processor": "a"},
    )  # fmt: skip
    found.save(tmp_path / "kept.json")
    return found, tmp_path / "kept.json"


@pytest.mark.long
def test_some_displays_of_each_slice_are_measured(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_SECONDS", math.inf)  # also where the machine stands still
    found = calibrate(network, "small", 1, displays=3)
    assert (len(found.slices), len(found.slices[0])) == (3, 3)
    assert all(0 < seconds < 1 for display in found.slices for seconds in display)
    for seconds in (found.learning, found.recording, found.image, found.update, found.addition):
        assert 0 < seconds < 1
    assert found.reduction is None or 0 < found.reduction < 1
    of_features, of_rows = found.part_times["features"], found.part_times["rows"]
    assert [(one.numbers, set(one.measured)) for one in of_features] == [([2, 4, 8], {2, 8})]
    assert (of_rows[0].numbers, set(of_rows[0].measured)) == ([2, 3], {2, 3})
    assert all(part > 0 for one in (*of_features, *of_rows) for part in one.measured.values())
    assert found.network == identify(network)


def measured(network: Network, axis: Axis) -> list[tuple[list[int], list[int]]]:
    return measuring_parts._ways(network, axis, build(network).wirings)


@pytest.mark.parametrize(("features", "expected"), [(8, [2, 8]), (9, [3, 9]), (37, [37]), (74, [2])])
def test_the_fewest_and_the_most_parts_are_measured(features: int, expected: list[int], small: Path) -> None:
    some = params.read(small, [f"layers.V1.shape=[6,6,{features}]"]).network
    ((numbers, found),) = measured(some, "features")
    assert found == expected
    assert all(features % parts == 0 for parts in numbers)


def test_numbers_for_which_the_same_layers_are_whole_are_measured_together() -> None:
    path = Path(__file__).parents[3] / "params" / "two_layer.toml"
    odd = params.read(path, ["layers.V1.shape=[16, 16, 128]", "layers.V2.shape=[8, 8, 27]"]).network
    assert measured(odd, "features") == [
        ([2, 4, 8, 16, 32, 64, 128], [2, 32]),
        ([3, 9, 27], [3, 27]),
    ]
    many = params.read(path, ["layers.V2.shape=[8, 8, 30]"]).network
    groups = [numbers for numbers, _ in measured(many, "features")]
    assert groups == [[2], [3, 5, 6, 10, 15, 30], [4, 8, 16, 32, 64, 128]]


def test_parts_that_save_hardly_any_arithmetic_are_not_measured() -> None:
    network = params.read(Path(__file__).parents[3] / "params" / "natural_images.toml").network
    groups = alike(network, "rows", build(network).wirings)
    assert groups == [[2, 4], [8, 16], [32]]  # patches of 8 rows reach beyond the next of smaller tiles
    assert [numbers for numbers, _ in measured(network, "rows")] == groups[:1]


@pytest.mark.parametrize(("most", "stops"), [(1e11, (30, 60)), (1, (2, 12))])
def test_parts_are_measured_in_a_second_display_if_that_is_not_too_much(
    most: float, stops: tuple[int, int], network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, plan = list[tuple[int, ...]](), LonePart.planned

    def planned(part: LonePart, **changes: Any) -> Any:
        found.append(changes["stops"])
        return plan(part, **changes)

    longer = network.model_copy(update={"run": network.run.model_copy(update={"display": 30})})
    monkeypatch.setattr(LonePart, "planned", planned)
    monkeypatch.setattr(measuring_parts, "_MOST", most)
    assert measuring_parts._steps(longer, 1).sum() > 0
    assert found == [stops]


def test_of_each_slice_the_slower_part_counts(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(network: Network, threads: int, part: int | None = None) -> np.ndarray:
        if part is None:
            return np.array([4.0, 4.0])
        return np.array([3.0, 1.0] if part == 0 else [2.0, 2.0])

    monkeypatch.setattr(measuring_parts, "_steps", steps)
    (found,) = part_times(network, 1)["features"]
    assert found.measured[2] == (3.0 + 2.0) / (4.0 + 4.0)


def test_displays_are_cut_short_on_demand(network: Network) -> None:
    for steps, display in ((4, 4), (None, 10), (99, 10)):
        plan = measuring._sample(network, steps, displays=2).plan
        assert (plan.graph.network.run.display, plan.length) == (display, 3 * display)


def test_of_many_slices_some_are_measured(network: Network) -> None:
    many = network.model_copy(update={"run": network.run.model_copy(update={"batch": 1000})})
    assert measuring._sample(many, None, 10).plan.graph.network.batch == 16


def test_all_slices_with_values_of_their_own_are_measured(small: Path) -> None:
    swept = params.read(
        small, ["sweep.layers.V1.threshold=[0.3,0.4]", "connections.dictionary.mode=shared"]
    ).network
    sample = measuring._sample(swept, None, 10).plan.graph.network
    assert (swept.batch, sample.batch) == (6, 6)


def test_without_mpi_the_start_of_a_reduction_counts_as_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(measuring, "_START", "raise SystemExit('no library')")
    monkeypatch.setattr(measuring.log, "propagate", True)
    assert measuring._reduction() is None
    assert "the start of an MPI reduction was not measured, and counts as nothing: no library" in caplog.text


def test_it_is_read_as_it_was_written(network: Network, kept: tuple[Calibration, Path]) -> None:
    found, path = kept
    assert load(path, network, None) == load(path, network, 1) == found


def test_batch_and_length_of_the_run_may_differ(small: Path, kept: tuple[Calibration, Path]) -> None:
    other = params.read(small, ["run.batch=64", "run.displays=9", "run.reduce=overlapped", "title=other"])
    assert load(kept[1], other.network, None) == kept[0]


@pytest.mark.parametrize("override", ["layers.V1.threshold=0.31", "run.display=11", "run.kernel=dense"])
def test_it_is_refused_for_another_network(
    override: str, small: Path, kept: tuple[Calibration, Path]
) -> None:
    other = params.read(small, [override]).network
    pattern = (
        rf"(?s)another network.*found: .*small.toml, {kept[0].network}.*expected: .*{identify(other)}.*hint:"
    )
    with pytest.raises(ArgumentError, match=pattern):
        load(kept[1], other, None)


def test_it_is_refused_for_another_number_of_threads(
    network: Network, kept: tuple[Calibration, Path]
) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)--threads: .*found: .*4.*expected: .*1.*hint:"):
        load(kept[1], network, 4)


def test_other_files_are_refused(network: Network, tmp_path: Path) -> None:
    for text, found in (
        ("{}", "network: Field required"),
        ("text", "Invalid JSON: "),
        ("\0", "Invalid JSON"),
    ):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(
            InputError,
            match=rf"(?s)not a calibration of this version.*found: +{found}.*expected: .*--calibration",
        ):
            load(tmp_path / "other.json", network, None)


def test_one_of_a_version_with_other_parts_is_refused(
    network: Network, kept: tuple[Calibration, Path]
) -> None:
    older = json.loads(kept[1].read_text())
    del older["part_times"]
    kept[1].write_text(json.dumps(older | {"parts": {"features": {"2": 0.8}}}))
    with pytest.raises(InputError, match=r"(?s)part_times: Field required.*hint: .*a new file"):
        load(kept[1], network, None)


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"slices": []}, "slices: List should have at least 1 item"),
        ({"slices": [[-1.0]]}, r"slices.0.0: .*greater than or equal to 0"),
        ({"image": float("nan")}, "image: Input should be a finite number"),
        ({"machine": {"petabatch": "0.0.1"}}, "version 0.0.1"),
    ],
)
def test_a_damaged_one_or_that_of_another_version_is_refused(
    changed: dict[str, object], found: str, network: Network, kept: tuple[Calibration, Path]
) -> None:
    kept[1].write_text(json.dumps(json.loads(kept[1].read_text()) | changed))
    with pytest.raises(InputError, match=rf"(?s)of this version.*found: +{found}.*hint: .*a new file"):
        load(kept[1], network, None)


def test_it_says_why_it_cannot_be_kept(kept: tuple[Calibration, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        replace(kept[0], title="").save(tmp_path / "nowhere" / "kept.json")
