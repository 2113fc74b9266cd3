"""Orders: which frame a slice shows in which display."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petabatch.errors import InputError, TableError
from petabatch.sources import ImageArray
from petabatch.sources.orders import ByMovie, Movie, Order, Random, Sequential, Shuffled, Specified

RNG = np.random.default_rng(0)


def frames(order: Order, films: list[int], batch: int, displays: int) -> list[list[int]]:
    """Return the frames that each slice shows."""
    playlist = order.open(films, batch, 1)
    return [[playlist.frame(b, display, RNG) for display in range(displays)] for b in range(batch)]


def test_sequential_slices_take_turns_and_movies_of_images_start_at_equal_distances() -> None:
    assert frames(Sequential(), [1] * 5, 3, 3) == [[0, 3, 1], [1, 4, 2], [2, 0, 3]]
    assert frames(ByMovie(), [1] * 7, 3, 4) == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 0]]


def test_movies_of_images_start_as_much_later_as_is_asked_for() -> None:
    assert frames(ByMovie(start=(1, 6, 0)), [1] * 7, 3, 3) == [[1, 2, 3], [1, 2, 3], [4, 5, 6]]
    with pytest.raises(InputError, match=r"order.start does not have one number for each slice"):
        ByMovie(start=(1, 6)).open([1] * 7, 3, 1)


@pytest.mark.parametrize(
    ("count", "batch", "said"), [(3, 4, True), (4, 4, False), (1, 1, False), (3, 2, False)]
)
def test_by_movie_says_that_there_are_fewer_frames_than_slices(count: int, batch: int, said: bool) -> None:
    assert ("the same" in ByMovie().open([1] * count, batch, 1).note) == said
    assert ByMovie().open([count], batch, 1).note == ByMovie().open([1] * count, batch, 1).note


@pytest.mark.parametrize(
    ("image", "keys", "said"),
    [
        ((9, 9), {}, True),
        ((8, 9), {}, True),
        ((8, 8), {}, False),
        ((10, 9), {}, False),
        ((9, 9), {"crop": "random"}, False),
        ((9, 9), {"crop": "center"}, False),
        ((9, 9), {"transforms": [{"type": "crop"}]}, False),
    ],
)
def test_images_that_are_a_little_larger_than_their_layer_are_told_of(
    image: tuple[int, int], keys: dict[str, Any], said: bool
) -> None:
    source = ImageArray(data=np.zeros((3, *image, 1), "f4"), **keys)
    notes = source.stream((8, 8, 1), 2, 1).notes
    assert [note.partition(" are")[0] for note in notes] == [f"its images of {image[0]} x {image[1]}"] * said


def test_specified_slices_start_and_advance_as_their_lists_say() -> None:
    assert frames(Specified(start=(0, 4), skip=(1, 2)), [6], 2, 4) == [[0, 1, 2, 3], [4, 0, 2, 4]]
    for order, message in [
        (Specified(start=(0, 1, 2)), "order.start does not have one number for each slice"),
        (Specified(start=(0, 1), skip=(1, 1, 1)), "order.skip does not have one number for each slice"),
        (Specified(start=(0, 6)), "order.start is beyond the end"),
    ]:
        with pytest.raises(InputError, match=message) as raised:
            order.open([6], 2, 1)
        assert raised.value.key == message.split()[0]


@settings(max_examples=40, deadline=None)
@given(count=st.integers(1, 60), batch=st.integers(1, 13), seed=st.integers(0, 2**60))
def test_shuffled_epochs_show_every_image_exactly_once(count: int, batch: int, seed: int) -> None:
    playlist = Shuffled().open([1] * count, batch, seed)
    shown = [playlist.frame(b, display, RNG) for display in range(3 * count) for b in range(batch)]
    epochs = [shown[start : start + count] for start in range(0, len(shown) - count + 1, count)]
    assert all(sorted(epoch) == list(range(count)) for epoch in epochs)


def test_shuffled_epochs_have_independent_orders_that_are_equally_likely() -> None:
    orders = Counter(
        tuple(Shuffled().open([1] * 4, 1, seed).frame(0, display, RNG) for display in range(4))
        for seed in range(2400)
    )
    assert len(orders) == 24
    assert sum((n - 100) ** 2 / 100 for n in orders.values()) < 49.7  # chi squared, 23 degrees, p = 0.001
    first, second = np.array(frames(Shuffled(), [1] * 500, 1, 1000)[0]).reshape(2, 500)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.15
    assert abs(np.corrcoef(first, np.arange(500))[0, 1]) < 0.15


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, [[0, 1, 2, 7, 8, 0], [3, 4, 5, 6, 3, 4]]),
        ({"every": 2}, [[0, 2, 7, 0, 2, 7], [3, 5, 3, 5, 3, 5]]),
        ({"at_end": "again"}, [[0, 1, 2, 0, 1, 2], [3, 4, 5, 6, 3, 4]]),
        ({"at_end": "hold"}, [[0, 1, 2, 2, 2, 2], [3, 4, 5, 6, 6, 6]]),
        ({"at_end": "stop"}, [[0, 1, 2, 2, 2, 2], [3, 4, 5, 6, 6, 6]]),
        ({"at_end": "stop", "end": "hold"}, [[0, 1, 2, 2, 2, 2], [3, 4, 5, 6, 6, 6]]),
        ({"end": "hold"}, [[0, 1, 2, 7, 8, 8], [3, 4, 5, 6, 6, 6]]),
        ({"end": "longest"}, [[0, 1, 2, 7, 8, 8], [3, 4, 5, 6, 6, 6]]),
    ],
)
def test_each_slice_shows_its_own_films_from_their_first_frames(keys: Any, expected: Any) -> None:
    assert frames(Movie(**keys), [3, 4, 2], 2, 6) == expected


@pytest.mark.parametrize(
    ("keys", "displays"),
    [
        ({}, None), ({"end": "hold"}, None), ({"end": "shortest"}, 4), ({"end": "longest"}, 5),
        ({"at_end": "stop", "end": "shortest"}, 3), ({"at_end": "stop"}, 3),
        ({"at_end": "stop", "end": "hold"}, None),
        ({"every": 3, "end": "longest"}, 2),
    ],
)  # fmt: skip
def test_the_number_of_displays_of_unequal_films_is_known(keys: Any, displays: int | None) -> None:
    assert Movie(**keys).open([3, 4, 2], 2, 1).displays == displays


@pytest.mark.parametrize("at_end", ["again", "hold"])
@pytest.mark.parametrize("end", ["shortest", "longest"])
def test_films_that_do_not_end_have_no_shortest_and_no_longest(at_end: str, end: str) -> None:
    with pytest.raises(TableError, match="films that do not end"):
        Movie(at_end=at_end, end=end)  # type: ignore[arg-type]


def test_layers_are_reset_where_a_film_begins_if_asked() -> None:
    def begins(**keys: Any) -> list[list[int]]:
        playlist = Movie(**keys).open([3, 4, 2], 2, 1)
        return [[display for display in range(12) if playlist.begins(b, display)] for b in range(2)]

    assert begins() == [[], []]
    assert begins(reset=True) == [[3, 5, 8, 10], [4, 8]]
    assert begins(reset=True, end="hold") == [[3], []]
    assert begins(reset=True, at_end="again") == [[3, 6, 9], [4, 8]]


def test_the_crop_of_a_movie_changes_with_the_film_alone() -> None:
    playlist = Movie().open([3, 4, 2], 2, 1)
    crops = [playlist.crop(0, display) for display in range(7)]
    assert crops[0] == crops[1] == crops[2]
    assert crops[3] == crops[4]
    assert len(set(crops)) == 3


@pytest.mark.parametrize(("films", "batch"), [([1] * 9, 2), ([30], 2), ([5, 6], 3)])
def test_a_movie_without_a_film_for_each_slice_names_by_movie(films: list[int], batch: int) -> None:
    with pytest.raises(InputError, match='order = "by_movie"'):
        Movie().open(films, batch, 1)


def test_an_order_may_be_its_name() -> None:
    data = np.zeros((2, 3, 3, 1))
    assert ImageArray(data=data, order="shuffled").order == Shuffled()
    assert ImageArray(data=data, order={"type": "random"}).order == Random()


def test_same_slices_show_what_a_single_slice_would() -> None:
    data = np.random.default_rng(1).random((5, 9, 9, 1))
    for order in ("sequential", "shuffled", "random", "by_movie"):
        alone = ImageArray(data=data, order=order).open((4, 4, 1), 1, 1)
        same = ImageArray(data=data, order=order, slices="same").open((4, 4, 1), 3, 1)
        for b in range(3):
            for display in range(4):
                assert np.array_equal(same(b, display), alone(0, display))
                assert same.shown(b, display) == alone.shown(0, display)
