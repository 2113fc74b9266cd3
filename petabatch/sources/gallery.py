"""Numbered images of known shape that can be read in part: the data of a source."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from petabatch.errors import InputError

NOTHING = (0, 0, 0)
"""The shape of an image that cannot be shown."""


@dataclass(frozen=True)
class Gallery:
    """Numbered images; `read` is thread-safe."""

    shapes: Sequence[tuple[int, int, int]]
    """`[ny, nx, nf]` of each image."""
    read: Callable[[int, slice, slice], np.ndarray]
    """`read(number, rows, columns)` returns that part of an image, `[ny, nx, nf]`, as stored."""
    name: Callable[[int], str]
    """`name(number)` returns the name of an image in error messages: its file, or its index in a file."""
    films: Sequence[int] = ()
    """Number of frames of each film, in the order of the images; empty for still images."""
    stack: tuple[int, ...] | None = None
    """Shape of the array that holds all images; None for images in files of their own."""
    bad: Mapping[int, InputError] = field(default_factory=dict)
    """Errors of images that cannot be shown, by their numbers."""
    slots: Sequence[int] = ()
    """Film that is shown in place of each, where bad films are skipped."""
    holders: Sequence[tuple[str, int]] = ()
    """Files with many items, in order, each with its number of items; empty if each item has its own."""
    file: object = None
    """An open or loaded file that `read` needs, which is closed with the gallery. As long as it is held here,
    others that open the file share it."""
    expect: Callable[[object, int], None] = lambda reader, places: None
    """`expect(reader, places)` prepares for a reader that follows films at `places` places in turns."""
    block: Callable[[int, int], np.ndarray] | None = None
    """`block(first, last)` returns images `first` to `last - 1` of one array, `[n, ny, nx, nf]`, as stored;
    None where each is read alone."""
    note: Callable[[], str] = lambda: ""
    """Returns what can hardly be meant, or what it costs if all readers together follow films at too many
    places, else ""."""

    @property
    def frames(self) -> Sequence[int]:
        """Number of frames of each item: a film has many, a still image one."""
        return self.films or [1] * len(self.shapes)

    def item(self, number: int) -> tuple[int, int]:
        """Return the item of image `number`, and which of its frames that is."""
        if not self.films:
            return number, 0
        film = bisect_right(self._ends, number)
        frame = number - (self._ends[film] - self.films[film])
        return self.slots[film] if self.slots else film, frame

    def skipping(self, bad: set[int]) -> tuple[Gallery, set[int]]:
        """Return films in which the next good one stands in for each bad one, and the images still bad."""
        starts = [end - count for end, count in zip(self._ends, self.films, strict=True)]
        good = [film for film, start in enumerate(starts) if start not in bad]
        if len(good) == len(starts):
            return self, bad
        slots = [good[bisect_left(good, film) % len(good)] for film in range(len(starts))]
        numbers = [starts[film] + frame for film in slots for frame in range(self.films[film])]
        return replace(
            self,
            shapes=[self.shapes[number] for number in numbers],
            read=lambda number, rows, columns: self.read(numbers[number], rows, columns),
            name=lambda number: self.name(numbers[number]),
            films=[self.films[film] for film in slots],
            bad={},
            holders=self.files,
            slots=slots,
        ), set()

    def of(self, numbers: Sequence[int]) -> Gallery:
        """Return some of the images, each an item of its own."""
        return replace(
            self,
            shapes=[self.shapes[number] for number in numbers],
            read=lambda number, rows, columns: self.read(numbers[number], rows, columns),
            name=lambda number: self.name(numbers[number]),
            films=(),
            bad={},
            holders=[(self.name(number), 1) for number in numbers],
            slots=(),
            block=None,
        )

    @property
    def files(self) -> Sequence[tuple[str, int]]:
        """Files of the items, in order, each with its number of items."""
        if self.holders:
            return self.holders
        firsts = [end - count for end, count in zip(self._ends, self.films, strict=True)]
        return [(self.name(number), 1) for number in firsts or range(len(self.shapes))]

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(self.films))


def stacked(
    images: np.ndarray, name: str, file: object, missing: int = 0, error: InputError | None = None
) -> Gallery:
    """Return the gallery of an array of images `[n, ny, nx, nf]` of an open file, each named by its index.

    They are followed by `missing` ones, which `error` is about.
    """

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        return np.asarray(images[number, rows, columns])

    shapes = [images.shape[1:]] * len(images)
    holders = [(name, len(images))]
    gallery = Gallery(shapes, read, lambda number: f"{name}[{number}]", holders=holders, file=file)
    return gallery if error is None else lacking(gallery, missing, error)


def lacking(gallery: Gallery, missing: int, error: InputError) -> Gallery:
    """Return the gallery of one array with `missing` bad images after its own."""
    ((name, count),), total = gallery.holders, len(gallery.shapes) + missing
    return replace(
        gallery,
        shapes=[*gallery.shapes, *[NOTHING] * missing],
        bad=dict.fromkeys(range(count, total), error),
        holders=[(name, total)],
    )


def unusable(path: str, error: InputError) -> Gallery:
    """Return a gallery with a single bad image in place of the images of a file."""

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        raise InputError(str(error))

    return Gallery([NOTHING], read, lambda number: path, bad={0: error}, holders=[(path, 1)])


def joined(galleries: Sequence[Gallery]) -> Gallery:
    """Return several galleries of still images as one."""
    if len(galleries) == 1:
        return galleries[0]
    ends = list(accumulate(len(gallery.shapes) for gallery in galleries))

    def place(number: int) -> tuple[Gallery, int]:
        index = bisect_right(ends, number)
        return galleries[index], number - (ends[index] - len(galleries[index].shapes))

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        gallery, index = place(number)
        return gallery.read(index, rows, columns)

    def name(number: int) -> str:
        gallery, index = place(number)
        return gallery.name(index)

    shapes = [shape for gallery in galleries for shape in gallery.shapes]
    starts = [0, *ends]
    bad = {start + n: e for start, each in zip(starts, galleries, strict=False) for n, e in each.bad.items()}
    holders = [file for gallery in galleries for file in gallery.files]
    return Gallery(shapes, read, name, bad=bad, holders=holders)
