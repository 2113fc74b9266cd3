"""The images that input layers show, by slice and item."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from petabatch.engine.image_sizes import (
    margin_of,
    nbytes_of_image,
    shape_of,
    slices_alike,
    tile_of,
    whole_shape_of,
)
from petabatch.engine.tile_images import TileStream
from petabatch.errors import InputError, InputFileError
from petabatch.logs import log
from petabatch.network.graph import Graph
from petabatch.network.plan import Plan
from petabatch.network.slices import sliced, values_of_images
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.spec.images import ImageStream, Shown
from petabatch.spec.part_errors import calling
from petabatch.spec.paths import file_problem


@dataclass(frozen=True)
class Instead:
    """Images that an input layer shows instead of those of its source."""

    images: np.ndarray
    """`[slices of the rank, ny, nx, nf]`, with the margin of the layer."""
    lo: int
    """The first slice of the rank."""
    first: int
    last: int | None
    """The first and the last item in whose place they are shown; without a last one they stay."""

    def holds(self, item: int) -> bool:
        """Return whether they are shown in place of an item."""
        return self.first <= item and (self.last is None or item <= self.last)

    def of(self, number: int) -> np.ndarray:
        """Return the image of a global slice."""
        image: np.ndarray = self.images[number - self.lo]
        return image


class ImageReader:
    """The images that an input layer shows, by global slice and item, `[ny, nx, nf]`.

    Where connections look beyond the edge of the layer and its border is the image, `around` gives the same
    images with that margin, of which the layer shows the middle: a crop is drawn, and pixels are normalised,
    with the margin (PetaVision's `useInputBCflag`).
    """

    def __init__(self, graph: Graph, name: str, blocking_io: BlockingIO) -> None:
        self._network, run = graph.network, graph.network.run
        layer = self._network.layers[name].images
        assert layer is not None
        self.layer, self.name, self._blocking_io = layer, name, blocking_io
        self.y, self.x = margin_of(graph, layer, name)
        self.shape = shape_of(graph, layer, name)
        self._whole = whole_shape_of(graph, layer, name)
        first = tile_of(graph, name).number * layer.shape[0]
        self._rows, self._reading = slice(first, first + self.shape[0]), threading.Lock()
        try:
            with calling(layer.source, f"layers.{name}.source"):
                self._streams = dict(self._open())
        except InputError as error:
            noted = InputError(f"{error}{self._note}")
            noted.key = error.key
            raise noted from None if self._note else error
        self.instead: Instead | None = None
        self.read_ahead, self.forward = layer.source.read_ahead, self.stream.forward
        self.last_item = layer.shown(run.length, run.display)
        """The item that is shown at the end of the run."""
        displays, shown = self.stream.displays, self.last_item + 1
        if displays is not None and shown > displays:
            raise InputError(
                f"the run is longer than its films\n"
                f"    found:    {shown:,} frames to show\n    expected: at most {displays:,}\n"
                f'    hint:     with order.end = "hold" the last frames remain; with order.at_end = "next" '
                'and order.end = "wrap" films begin again'
            ).at("order")

    @property
    def stream(self) -> ImageStream:
        """The images of slice 0, with what is the same for all slices: files, and how long films last."""
        return self._stream(0)[0]

    @property
    def nbytes(self) -> int:
        """Bytes of an image."""
        return nbytes_of_image(self.shape)

    def __call__(self, number: int, item: int) -> np.ndarray:
        """Return the image that the layer shows, without its margin."""
        ny, nx, _ = self.layer.shape
        return self.around(number, item)[self.y : self.y + ny, self.x : self.x + nx]

    def around(self, number: int, item: int) -> np.ndarray:
        """Return the image with its margin; raises InputError when the source does not provide one."""
        if self.instead is not None and self.instead.holds(item):
            return self.instead.of(number)
        with self._blocking_io, calling(self.layer.source, f"layers.{self.name}.source"):
            stream, within = self._stream(number)
            image = stream(within, item)
        if (self.y or self.x) and image.shape != self.shape:
            raise InputError(
                f"layers.{self.name}: the source does not provide the margin of the image\n"
                f"    found:    {list(image.shape)}\n    expected: {list(self.shape)}"
            )
        return image

    def shown(self, number: int, item: int) -> Shown:
        """Return what the layer shows; of the crop the part within the margin."""
        if self.instead is not None and self.instead.holds(item):
            return Shown(-1, 0, (self.y, self.x))
        stream, within = self._stream(number)
        return stream.shown(within, item, (self.y, self.x))

    def begins(self, number: int, item: int) -> bool:
        """Return whether the layers of a slice are reset when this item is shown, since a film begins."""
        stream, within = self._stream(number)
        return stream.begins(within, item)

    def close(self) -> None:
        """Let go of the files, which are closed unless others read them too."""
        self._streams.clear()

    def _open(self) -> Iterator[tuple[tuple[float, ...], ImageStream]]:
        """Yield the images of each seed and each combination of the source's values that slices differ in."""
        for key, numbers in slices_alike(self._network, self.name).items():
            own = sliced(self._network, numbers[0])
            layer = own.layers[self.name].images
            assert layer is not None
            stream = layer.source.stream(self._whole, own.run.batch, own.run.seed)
            stream.expect(len(numbers))
            yield key, stream if self._whole == self.shape else TileStream(stream, self._rows, self._reading)

    def _stream(self, number: int) -> tuple[ImageStream, int]:
        """Return the images of a slice, and its number among the slices that they are for."""
        key = values_of_images(self._network, self.name, number)
        return self._streams[key], number % self._network.run.batch

    @property
    def _note(self) -> str:
        if not (self.y or self.x):
            return ""
        return (
            f'\n    note:     layers.{self.name} has border = "image": {self.y} rows and {self.x} columns of '
            f"the image are needed beyond each edge"
        )


def open_images(plan: Plan, blocking_io: BlockingIO) -> dict[str, ImageReader]:
    """Open the images of all input layers; raises InputFileError with all that are unusable, by key."""
    readers, problems = {}, []
    for name in plan.inputs:
        try:
            readers[name] = ImageReader(plan.graph, name, blocking_io)
        except InputError as error:
            problems.append(file_problem(f"layers.{name}.source", plan.inputs[name].source, error))
    if problems:
        raise InputFileError(problems)
    return readers


def files_shown(readers: Mapping[str, ImageReader]) -> dict[str, Sequence[tuple[str, int]]]:
    """Return the files of the items that input layers show, in order, with their numbers of items."""
    return {name: read.stream.files for name, read in readers.items() if read.layer.source.traced}


def found(readers: Mapping[str, ImageReader]) -> list[str]:
    """Return the numbers of images that the layers have found, by size."""
    return [f"{name}: {read.stream.found}" for name, read in readers.items() if read.stream.found]


def log_notes(readers: Mapping[str, ImageReader]) -> None:
    """Warn of what can hardly be meant, or will make reading slow, as far as is open now."""
    noted: dict[str, list[str]] = {}
    for name, read in readers.items():
        for note in read.stream.notes:
            noted.setdefault(note, []).append(f"layers.{name}")
    for note, names in noted.items():
        log.warning("%s: %s", ", ".join(names), note)
