"""What ranks exchange: the numbers of docs/scaling.md follow from the params files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from petabatch import params
from petabatch.bench.prediction.collectives import ring
from petabatch.bench.prediction.traffic import Traffic, traffic
from petabatch.bench.prediction.ways import first_part
from petabatch.network.messages import Message

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "scaling.md").read_text()


def of(file: str, *overrides: str) -> Traffic:
    return traffic(params.plan(params.read(ROOT / "params" / file, overrides)))


def of_part(file: str, *overrides: str) -> Traffic:
    return traffic(first_part(params.read(ROOT / "params" / file, overrides).network).features.plan)


def nbytes(messages: tuple[Message, ...]) -> list[int]:
    assert all(one.period == 1 for one in messages)
    return [one.nbytes for one in messages]


def rows(beginning: str, cells: int) -> list[list[str]]:
    """Return the cells of the rows of the page that begin like this, of tables with so many columns."""
    every = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if re.match(rf"\| {beginning}", line)
    )
    return [row for row in every if len(row) == cells]


@pytest.mark.parametrize("file", ["natural_images.toml", "movies.toml", "whitened.toml", "mnist.toml"])
def test_the_page_has_the_bytes_of_an_update(file: str) -> None:
    ((_, _, steps, nbytes, _),) = rows(f"`{file}`", 5)
    found = of(file)
    (update,) = found.updates
    assert found.display / found.update_events == int(steps)
    assert update.exponents + update.integers == int(nbytes.replace(",", ""))


@pytest.mark.parametrize("row", rows(r"[0-9]+ \|", 6), ids=lambda row: row[0])
def test_the_page_has_the_bytes_and_messages_of_an_all_reduce(row: list[str]) -> None:
    ranks, _, _, megabytes, milliseconds, messages = row
    (update,) = of("natural_images.toml").updates
    found = ring(update.exponents + update.integers, int(ranks))
    assert found.sent / 1e6 == pytest.approx(float(megabytes), abs=0.005)
    assert found.sent / 117e6 * 1e3 == pytest.approx(float(milliseconds), abs=0.06)
    assert found.messages == int(messages.split(",")[0])


def test_split_features_send_their_part_of_the_image_in_each_step() -> None:
    found = of_part("natural_images.toml", "parallel.features=4").messages
    assert nbytes(found.summed) == [4 * 32 * 32 * 3]
    assert (found.gathered, found.borders, found.gathered_rows) == ((), (), ())


def test_split_features_that_a_whole_layer_sees_are_gathered() -> None:
    found = of_part("two_layer.toml", "parallel.features=4").messages
    assert nbytes(found.gathered) == [4 * 16 * 16 * 128 // 4]
    assert nbytes(found.summed) == [4 * 32 * 32 * 3, 4 * 16 * 16 * 128]


def test_split_rows_send_those_that_patches_reach_beyond_a_tile() -> None:
    # rows of the sums of patches of 8 x 8 whose units are 2 pixels apart, and of the padded error
    found = of_part("natural_images.toml", "parallel.rows=2").messages
    assert sorted(nbytes(found.borders)) == [3 * 32 * 3 * 4, 3 * (32 + 6) * 3 * 4]
    assert found.gathered_rows == ()


def test_more_parts_send_what_is_then_whole_on_each_rank() -> None:
    # patches reach beyond the next of tiles of 2 rows, so that the code and the error are gathered
    found = of_part("natural_images.toml", "parallel.rows=16")
    assert found.messages.borders == ()
    assert nbytes(found.messages.gathered_rows) == [4 * 2 * 32 * 3, 4 * 1 * 16 * 128]
    assert found.portions.products == 1
    assert (found.portions.images, found.portions.recordings, found.portions.weights) == (1 / 16, 1 / 16, 1)


def test_a_rank_has_the_weights_and_products_of_its_features_alone() -> None:
    whole, found = of("natural_images.toml"), of_part("natural_images.toml", "parallel.features=4")
    assert found.updates[0].integers == whole.updates[0].integers / 4
    assert (found.portions.weights, found.portions.products, found.portions.images) == (1 / 4, 1 / 4, 1)
    assert 1 / 4 < found.portions.arithmetic < 0.27  # and the units of the image


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
