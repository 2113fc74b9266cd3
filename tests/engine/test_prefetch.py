"""Prefetch of images on the CPU."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from petabatch.engine.prefetch import Prefetch
from petabatch.errors import InputError
from petabatch.sources import ImageArray
from petabatch.sources.views import Views
from support.processes import PATIENCE, wait_until

SLICES, LAST = 2, 9


class Reader:
    """A reader of slow files that notes what it read on which thread."""

    def __init__(self, read_ahead: bool = True, nbytes: int = 1 << 20, bad: int = -1) -> None:
        self.read_ahead, self.nbytes, self.last_item, self.bad = read_ahead, nbytes, LAST, bad
        self.forward = False
        self.read: list[tuple[int, int, str]] = []

    def __call__(self, number: int, item: int) -> np.ndarray:
        self.read.append((number, item, threading.current_thread().name))
        if item == self.bad:
            raise InputError(f"image {item} is damaged")
        return np.full((1, 1, 1), 100 * number + item, np.float32)


@pytest.fixture
def prefetch() -> Iterator[Callable[[Reader], Prefetch]]:
    made: list[Prefetch] = []

    def make(reader: Reader) -> Prefetch:
        made.append(Prefetch({"image": reader}, SLICES))
        return made[-1]

    yield make
    for one in made:
        one.close()


def settled(reader: Reader, count: int) -> list[tuple[int, int]]:
    """Return what was read once as much as expected was, and the rest a moment later."""
    wait_until(lambda: len(reader.read) >= count)
    time.sleep(0.05)
    return sorted((number, item) for number, item, _ in reader.read)


def test_images_of_a_slice_are_read_once_ahead_and_no_further_than_the_run(
    prefetch: Callable[[Reader], Prefetch],
) -> None:
    reader = Reader()
    feed = prefetch(reader)
    assert feed.read("image", 1, 0).item() == 100
    assert settled(reader, 5) == [(1, item) for item in range(5)]
    for item in range(1, LAST + 1):
        assert feed.read("image", 1, item).item() == 100 + item
    assert settled(reader, LAST + 1) == [(1, item) for item in range(LAST + 1)]
    assert {thread.rsplit("_", 1)[0] for _, _, thread in reader.read} == {"feed"}


def test_what_a_slice_has_shown_is_known_of_images_that_were_read_ahead(
    prefetch: Callable[[Reader], Prefetch], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = np.random.default_rng(0).random((3, 9, 9, 1), np.float32)
    source = ImageArray(data=images, crop="random", contrast=0.01)
    stream, other = (source.stream((4, 4, 1), SLICES, 1) for _ in range(2))
    chosen: list[tuple[int, int]] = []
    choose = Views._picture

    class Files(Reader):
        def __call__(self, number: int, item: int) -> np.ndarray:
            super().__call__(number, item)
            return stream(number, item)

    def noted(self: Views, slice_: int, display: int) -> Any:
        chosen.extend([(slice_, display)] if self is stream else [])
        return choose(self, slice_, display)

    monkeypatch.setattr(Views, "_picture", noted)
    reader = Files()
    feed = prefetch(reader)
    for number in range(SLICES):
        for item in range(LAST + 1):
            feed.read("image", number, item)
            if item == 0:  # the displays after it have been read, too
                settled(reader, number * (LAST + 1) + 5)
            assert stream.shown(number, item) == other.shown(number, item)
    assert sorted(chosen) == [(number, item) for number in range(SLICES) for item in range(LAST + 1)]


def test_first_images_are_read_before_a_slice_begins_and_once(prefetch: Callable[[Reader], Prefetch]) -> None:
    reader = Reader()
    feed = prefetch(reader)
    feed.begin(7)
    assert settled(reader, 5) == [(7, item) for item in range(5)]
    assert feed.read("image", 7, 0, again=True).item() == 700
    for item in range(LAST + 1):
        assert feed.read("image", 7, item).item() == 700 + item
    assert settled(reader, LAST + 1) == [(7, item) for item in range(LAST + 1)]
    assert not feed._ahead, "slices that have seen their last image leave nothing"


def test_large_images_are_read_one_display_ahead(prefetch: Callable[[Reader], Prefetch]) -> None:
    reader = Reader(nbytes=1 << 30)
    prefetch(reader).read("image", 0, 3)
    assert settled(reader, 2) == [(0, 3), (0, 4)]


def test_a_slice_may_jump_to_another_image(prefetch: Callable[[Reader], Prefetch]) -> None:
    feed = prefetch(Reader())
    feed.read("image", 0, 0)
    assert feed.read("image", 0, 7).item() == 7
    assert feed.read("image", 0, 8).item() == 8


def test_a_damaged_image_is_an_error_when_it_is_shown_not_when_it_is_read_ahead(
    prefetch: Callable[[Reader], Prefetch],
) -> None:
    feed = prefetch(Reader(bad=2))
    feed.read("image", 0, 0)
    feed.read("image", 0, 1)
    with pytest.raises(InputError, match="image 2 is damaged"):
        feed.read("image", 0, 2)


def test_images_in_memory_are_read_when_they_are_shown(prefetch: Callable[[Reader], Prefetch]) -> None:
    reader = Reader(read_ahead=False)
    prefetch(reader).read("image", 0, 0)
    assert settled(reader, 1) == [(0, 0)]
    assert reader.read[0][2] == threading.current_thread().name


def test_waiting_is_counted(prefetch: Callable[[Reader], Prefetch], monkeypatch: pytest.MonkeyPatch) -> None:
    now, waiting, more = 0.0, threading.Event(), threading.Event()

    def clock() -> float:
        """Return the time, in seconds; the first image is read once a lane is waiting for it."""
        found = now
        waiting.set()
        return found

    class Slow(Reader):
        def __call__(self, number: int, item: int) -> np.ndarray:
            nonlocal now
            assert (waiting if item < 5 else more).wait(PATIENCE)
            now += 1.0
            return super().__call__(number, item)

    monkeypatch.setattr("petabatch.engine.prefetch.time", SimpleNamespace(perf_counter=clock))
    reader = Slow()
    feed = prefetch(reader)
    try:
        feed.read("image", 0, 0)
        first = feed.waited
        assert first >= 1
        settled(reader, 5)
        feed.read("image", 0, 1)
        assert feed.waited == first
    finally:
        waiting.set()
        more.set()


def test_the_frames_of_a_film_are_decoded_one_after_the_other_those_of_slices_side_by_side(
    prefetch: Callable[[Reader], Prefetch],
) -> None:
    together = threading.Barrier(2, timeout=PATIENCE)
    reading: set[int] = set()

    class Film(Reader):
        def __call__(self, number: int, item: int) -> np.ndarray:
            assert number not in reading
            reading.add(number)
            together.wait()  # both slices are read at the same time
            reading.remove(number)
            return super().__call__(number, item)

    reader = Film()
    reader.forward = True
    feed = prefetch(reader)
    with ThreadPoolExecutor(2) as lanes:
        found = list(
            lanes.map(lambda b: [feed.read("image", b, i).item() for i in range(LAST + 1)], range(2))
        )
    assert found == [[100 * b + i for i in range(LAST + 1)] for b in range(2)]
    for b in range(2):
        assert [item for number, item, _ in reader.read if number == b] == list(range(LAST + 1))


@pytest.mark.parametrize("forward", [False, True])
def test_nobody_waits_for_ever_for_an_image_when_reading_stops(forward: bool) -> None:
    reading = threading.Semaphore(0)

    class Slow(Reader):
        def __call__(self, number: int, item: int) -> np.ndarray:
            reading.release()
            time.sleep(0.2)
            return super().__call__(number, item)

    reader, slices = Slow(), 8  # twice as many as threads that read
    reader.forward = forward
    feed = Prefetch({"image": reader}, slices)

    def lane(number: int) -> None:
        with suppress(Exception):
            feed.read("image", number, 0)

    lanes = [threading.Thread(target=lane, args=(b,), daemon=True) for b in range(slices)]
    for thread in lanes:
        thread.start()
    for _ in range(4):
        assert reading.acquire(timeout=PATIENCE)
    feed.close()
    for thread in lanes:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in lanes)
