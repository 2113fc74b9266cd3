"""`petabatch bench --ranks`: the table, the choice between the ways of splitting, and its remarks."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from petabatch import params
from petabatch.bench.prediction.calibration import Calibration, PartTimes, identify
from petabatch.bench.prediction.command import rank_numbers
from petabatch.bench.prediction.forecast import Forecast, choose_split, forecast
from petabatch.bench.prediction.link import NAMED, Link
from petabatch.bench.prediction.model import Prediction
from petabatch.bench.prediction.report import as_json
from petabatch.cli.networks import bench
from petabatch.errors import ArgumentError, InputError
from petabatch.network.messages import Message
from petabatch.spec.network import Network
from support.commands import Command

MEASURED = Calibration(
    network="", title="", threads=1, slices=[[1e-4, 1.1e-4]], image=1e-4, learning=1e-4, recording=1e-5,
    update=1e-3, update_slice=1e-5, event=1e-4, addition=1e-11, reduction=1e-5,
    part_times={
        "features": [PartTimes([2, 4, 8, 16, 32, 64, 128], {2: 0.6, 8: 0.3})],
        "rows": [PartTimes([2, 4, 8], {2: 0.5, 8: 0.15})],
    },
    machine={"processor": "a", "load": [0.0]},
)  # fmt: skip
MAIN_JOB = Path(__file__).parents[3] / "params" / "natural_images.toml"
WHOLE_IMAGES = (
    *(f"layers.{layer}.shape=[16, 16, 1]" for layer in ("image", "error", "recon")),
    "layers.V1.shape=[1, 1, 4096]",
    "connections.dictionary.patch=[16, 16]",
    "run.batch=2",
)


def of(*overrides: str, ranks: tuple[int, ...] = (1, 2, 7, 64, 4096), threads: int = 1) -> Forecast:
    network: Network = params.read(MAIN_JOB, overrides).network
    return forecast(network, "main job", replace(MEASURED, threads=threads), NAMED["1GbE"], ranks)


def test_a_dictionary_of_patches_has_its_batch_split() -> None:
    rows = of(ranks=(1, 2, 7, 64, 4099)).rows
    assert [row.batch.prediction.slices for row in rows] == [16, 8, 3, 1, 1]
    assert rows[1].choice.startswith("split the batch: ")
    assert re.search(r"the features over 2 ranks would take [2-9][.\d]+ times as long", rows[1].choice)
    assert "bytes (78.6 MB instead of 0.26 MB)" in rows[1].choice
    assert rows[-1].best("features") is None
    assert rows[-1].choice.startswith("no way to split gives work to all of them; ")
    assert "128 features cannot be split into 4099 parts" in rows[-1].choice
    assert rows[0].batch.efficiency == 1
    assert all(a.batch.memory >= b.batch.memory for a, b in pairwise(rows))


def test_few_slices_of_whole_images_send_less_if_features_are_split() -> None:
    (row,) = of(*WHOLE_IMAGES, ranks=(2,)).rows
    features, rows = row.shared
    assert features.prediction.split == "features"
    assert row.batch.prediction.sent_per_update == pytest.approx(17e6, rel=0.02)
    assert features.prediction.sent_per_update == pytest.approx(0.82e6, rel=0.02)
    assert features.memory < row.batch.memory
    assert row.refused == {}
    assert rows.messages.gathered_rows == (Message(4 * 8 * 16 * 1, 1),)  # the error, for the whole code


def test_more_ranks_than_slices_have_their_slices_split_and_the_batch_over_groups() -> None:
    path = MAIN_JOB.with_name("two_layer.toml")
    network = params.read(path, ("run.batch=2", "run.display=100")).network
    (row,) = forecast(network, "two layers", MEASURED, NAMED["1GbE"], (4,)).rows
    ways = [(way.prediction.split, way.prediction.parts, way.prediction.slices) for way in row.shared]
    of_both = ("features and rows", 4, 2)
    assert ways == [("features", 2, 1), ("features", 4, 2), ("rows", 2, 1), ("rows", 4, 2), of_both]
    half, (both,) = row.shared[0], (way for way in row.shared if way.prediction.split == "features and rows")
    assert both.memory < half.memory
    assert both.prediction.communication < row.shared[1].prediction.communication
    two, four = (way.prediction for way in row.shared if way.prediction.split == "rows")
    assert four.messages - two.messages > 100 * two.slices
    assert row.batch.prediction.slices == 1
    chosen, _, others = row.choice.partition(": ")
    way = r"(features|rows|features and rows) over [24] ranks(, 2 by 2)?"
    assert re.fullmatch(rf"split the {way}(, and the batch over 2 groups)?", chosen)
    assert "the batch would take" not in others, "which `run` refuses"


def test_layers_that_do_not_divide_are_predicted_as_whole_on_each_rank() -> None:
    path = MAIN_JOB.with_name("two_layer.toml")
    network = params.read(path, ("run.batch=1", "run.display=100", "layers.V2.shape=[8, 8, 129]")).network
    found = forecast(network, "two layers", MEASURED, NAMED["1GbE"], (2, 3))
    of_code, of_second = (row.best("features") for row in found.rows)
    assert of_code is not None
    assert of_second is not None
    assert of_code.messages.gathered == (Message(4 * 16 * 16 * 64, 1),)  # of V1, not of V2
    assert of_code.messages.summed == (Message(4 * 32 * 32 * 3, 1),)
    assert of_second.messages.summed == (Message(4 * 16 * 16 * 128, 1),)
    assert of_code.prediction.measured
    assert not of_second.prediction.measured
    said = "features over 3 ranks: steps were not measured, and are estimated by their arithmetic"
    assert said in found.remarks
    assert not any(remark.startswith("rows") for remark in found.remarks)
    sent = as_json(found)["rows"][0]["shared"][0]["messages"]["summed"]
    assert sent == ({"nbytes": 4 * 32 * 32 * 3, "period": 1},)


def test_the_fastest_way_is_chosen_and_what_slows_the_others_is_said() -> None:
    link = Link(1e-3, 1e6)
    way = Prediction(2, 1, 1, 1, 1.0, 0.0, 1.0, 1e6, 1e6, 2.0)
    rows = replace(way, rows=2, computing=0.5, communication=0.1, sent=5e4, messages=50)
    features = replace(rows, features=2, rows=1, computing=0.25, communication=1.0, messages=100, sent=9e5)
    assert choose_split([way, features, rows], {}, link, 2) == (
        "split the rows over 2 ranks: 600.0 ms a display; the batch would take 3.33 times as long, for its "
        "bytes (1.00 MB instead of 50.0 kB); the features over 2 ranks would take 2.08 times as long, for "
        "its bytes (0.90 MB instead of 50.0 kB)"
    )
    many = replace(features, messages=900, communication=0.95, sent=5e4)
    said = choose_split([many, rows], {}, link, 2)
    assert "for its messages (900 one after the other instead of 50)" in said
    slow = replace(way, computing=1.5, updating=2.5)
    assert "for its arithmetic (4.00 s instead of 500.0 ms)" in choose_split([slow, rows], {}, link, 2)
    grid = replace(rows, ranks=8)
    assert choose_split([replace(way, ranks=8), grid], {"features": "why"}, link, 8).startswith(
        "split the rows over 2 ranks, and the batch over 4 groups: "
    )
    both = replace(rows, ranks=8, features=4)
    assert choose_split([both], {}, link, 8).startswith("split the features and rows over 8 ranks, 4 by 2: ")
    assert choose_split([way], {"features": "why"}, link, 2).endswith("; features of all 2 ranks: why")


def test_too_small_a_batch_is_remarked() -> None:
    remarks = "\n".join(of(threads=4).remarks)
    assert "64 ranks: 16 slices leave 48 of them idle" in remarks
    assert "7 ranks: those with 2 slices wait for those with 3" in remarks
    assert "7 ranks: predicted as if each slice had one of 4 threads" in remarks
    assert "on GPUs: " in remarks
    assert "fill an H100 (132 multiprocessors, display kernel); the batch has fewer" in remarks
    on_gpus = of("run.batch=1024", ranks=(1, 2, 64)).remarks
    (said,) = (remark for remark in on_gpus if remark.startswith("on GPUs"))
    assert said.endswith("; from 64 ranks on, each has fewer")
    assert of("run.batch=10000", ranks=(1, 8)).remarks == []


@pytest.mark.parametrize("text", ["", "0", "1,-2", "two", "1;2", "1.5"])
def test_numbers_of_ranks_are_whole(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)--ranks: .*found: .*expected: .*1,8,64"):
        rank_numbers(text)


def test_numbers_of_ranks_are_sorted() -> None:
    assert rank_numbers("64, 1,8,8") == [1, 8, 64]


def test_a_prediction_is_printed_kept_and_drawn(small: Path, petabatch: Command) -> None:
    kept = small.parent / "kept.json"
    replace(MEASURED, network=identify(params.read(small).network)).save(kept)
    asked = ("bench", small, "--ranks", "1,2,3,4", "--network", "1us,1GB/s", "--calibration", kept)
    done = petabatch(*asked, "--json", "found.json", "--plot", "drawn.svg")
    assert done.returncode == 0, done.stderr
    assert "small.toml: prediction for 3 slices" in done.stdout
    assert "note: 4 ranks: 3 slices leave 1 of them idle" in done.stdout
    for column in ("display", "efficiency", "communication", "sent", "memory", "ring", "tree"):
        assert f" {column} ┃" in done.stdout  # in 80 columns
    assert "…" not in done.stdout
    assert "Prediction, not measured" in (small.parent / "drawn.svg").read_text()
    found = json.loads((small.parent / "found.json").read_text())
    assert [row["ranks"] for row in found["rows"]] == [1, 2, 3, 4]
    one, two, three, _ = found["rows"]
    parts = ("computing", "updating", "communication")
    assert two["batch"]["seconds"] == pytest.approx(sum(two["batch"][part] for part in parts))
    assert two["batch"]["efficiency"] == pytest.approx(one["batch"]["seconds"] / two["batch"]["seconds"] / 2)
    assert two["batch"]["seconds"] > three["batch"]["seconds"]
    assert [(one["split"], one["parts"]) for one in two["shared"]] == [("features", 2), ("rows", 2)]
    assert all(one["sent"] > 0 for one in two["shared"])
    assert "8 features cannot be split into 3 parts" in three["refused"]["features"]


@pytest.mark.parametrize(
    ("ranks", "link", "override", "expected"),
    [
        ("1", None, "title=x", "--network: a prediction needs it"),
        (None, "NDR", "title=x", "--ranks: a prediction needs it"),
        ("1", "NDR", "run.device=gpu", "--ranks: ranks with GPUs are not predicted"),
    ],
)
def test_what_is_missing_or_wrong_is_said(
    small: Path, ranks: str | None, link: str | None, override: str, expected: str
) -> None:
    with pytest.raises(ArgumentError, match=rf"(?s){expected}.*expected: "):
        bench(small, [override], ranks=ranks, network=link)


def test_where_results_cannot_be_written_is_said_before_anything_is_measured(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("petabatch.bench.prediction.command.predict", lambda *_: pytest.fail("predicted"))
    nowhere, wrong = small.parent / "nowhere" / "file.json", small.with_suffix(".what")
    for options, expected in (
        ({"output": nowhere}, "--json: there is no such folder"),
        ({"calibration": nowhere}, "--calibration: there is no such folder"),
        ({"calibration": small.parent}, "--calibration: this is a folder"),
        ({"picture": wrong}, "unsupported figure format"),
    ):
        with pytest.raises(InputError, match=expected):
            bench(small, [], ranks="2", network="NDR", **options)  # type: ignore[arg-type]
    monkeypatch.setattr("os.access", lambda path, mode: path == small and mode == os.R_OK)
    for options, expected in (
        ({"output": small}, "--json: there is no permission"),
        ({"calibration": small, "output": small.with_suffix(".json")}, "--json: there is no permission"),
        ({"calibration": small.with_suffix(".json")}, "--calibration: there is no permission"),
    ):
        with pytest.raises(ArgumentError, match=expected):
            bench(small, [], ranks="2", network="NDR", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("option", ["calibration", "picture"])
def test_options_of_predictions_are_refused_without_one(small: Path, option: str) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)this is for predictions.*--ranks and --network"):
        bench(small, **{option: Path("file")})  # type: ignore[arg-type]
