"""What ranks exchange: the numbers of docs/scaling.md follow from the params files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from petabatch import params
from petabatch.bench.prediction.collectives import ring
from petabatch.bench.prediction.traffic import Traffic, obstacle, traffic

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "scaling.md").read_text()


def of(file: str, *overrides: str) -> Traffic:
    return traffic(params.plan(params.read(ROOT / "params" / file, overrides)))


def rows(beginning: str) -> list[list[str]]:
    """Return the cells of the rows of the page that begin like this."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if re.match(rf"\| {beginning}", line)
    ]


@pytest.mark.parametrize("file", ["natural_images.toml", "movies.toml", "whitened.toml", "mnist.toml"])
def test_the_page_has_the_bytes_of_an_update(file: str) -> None:
    ((_, _, steps, nbytes, _),) = rows(f"`{file}`")
    found = of(file)
    (update,) = found.updates
    assert found.display / found.update_events == int(steps)
    assert update.exponents + update.integers == int(nbytes.replace(",", ""))


@pytest.mark.parametrize("row", rows(r"[0-9]+ \|"), ids=lambda row: row[0])
def test_the_page_has_the_bytes_and_messages_of_an_all_reduce(row: list[str]) -> None:
    ranks, _, _, megabytes, milliseconds, messages = row
    (update,) = of("natural_images.toml").updates
    found = ring(update.exponents + update.integers, int(ranks))
    assert found.sent / 1e6 == pytest.approx(float(megabytes), abs=0.005)
    assert found.sent / 117e6 * 1e3 == pytest.approx(float(milliseconds), abs=0.06)
    assert found.messages == int(messages.split(",")[0])


def test_split_features_send_their_part_of_the_image_in_each_step() -> None:
    assert of("natural_images.toml").partial == (4 * 32 * 32 * 3,)


def test_split_features_that_a_whole_layer_sees_are_gathered() -> None:
    assert of("two_layer.toml").gathered == (4 * 16 * 16 * 128,)
    assert of("two_layer.toml").partial == (4 * 32 * 32 * 3, 4 * 16 * 16 * 128)


def test_split_rows_send_those_that_patches_reach_beyond_a_tile() -> None:
    # rows of the sums of patches of 8 x 8 whose units are 2 pixels apart, and of the padded error
    assert of("natural_images.toml").borders == (3 * 32 * 3 * 4, 3 * (32 + 6) * 3 * 4)


def test_a_schedule_in_steps_is_counted_over_a_display() -> None:
    found = of(
        "natural_images.toml", 'connections.dictionary.learn.every="10 steps"', "run.reduce=overlapped"
    )
    assert (found.update_events, found.learned, found.updates[0].per_display) == (40, 40, 40)
    assert found.events == 40
    assert found.overlapped


def test_weights_of_each_slice_are_not_exchanged() -> None:
    found = of("natural_images.toml", "connections.dictionary.mode=shared")
    assert found.updates == ()
    assert (found.update_events, found.learned) == (0, 1)


def test_why_features_cannot_be_split_is_said() -> None:
    network = params.read(ROOT / "params" / "natural_images.toml").network
    assert obstacle(network, "features", 64) == ""
    assert "128 features cannot be split into 4096 parts" in obstacle(network, "features", 4096)
