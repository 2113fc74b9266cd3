"""The images of input layers: their readers, their margins, and their display in a lane."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from petabatch.engine.history import History
from petabatch.engine.prefetch import THREADS, depth
from petabatch.errors import InputError, InputFileError
from petabatch.logs import log
from petabatch.network.graph import Graph
from petabatch.network.plan import Plan
from petabatch.network.slices import sliced, values_of_images
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.spec.images import ImageStream, Shown
from petabatch.spec.network import Network
from petabatch.spec.part_errors import calling
from petabatch.spec.parts import ImageLayer, StepContext
from petabatch.spec.paths import file_problem
from petabatch.variable import Array

if TYPE_CHECKING:
    from petabatch.engine.backend import Backend


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
        self.y, self.x = _margin(graph, layer, name)
        self.shape = shape_of(graph, layer, name)
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
        return _nbytes(self.shape)

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
        for key, numbers in _alike(self._network, self.name).items():
            own = sliced(self._network, numbers[0])
            layer = own.layers[self.name].images
            assert layer is not None
            stream = layer.source.stream(self.shape, own.run.batch, own.run.seed)
            stream.expect(len(numbers))
            yield key, stream

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


def _alike(network: Network, layer: str) -> dict[tuple[float, ...], Sequence[int]]:
    """Return the combinations of values that the images of slices depend on, each with its slices."""
    if not values_of_images(network, layer, 0):
        return {(): range(network.batch)}
    found: dict[tuple[float, ...], list[int]] = {}
    for number in range(network.batch):
        found.setdefault(values_of_images(network, layer, number), []).append(number)
    return dict(found)


def nbytes_of_source(network: Network, name: str) -> int:
    """Return the bytes that reading images for an input layer keeps in memory, at most."""
    layer = network.layers[name].images
    assert layer is not None
    return layer.source.nbytes(layer.shape) * len(_alike(network, name))


def nbytes_while_read(plan: Plan, slices: int) -> int:
    """Return the bytes that images take while they are read, at most: their pixels are float64 till then."""
    ahead = queues(plan, slices)
    return sum(
        2
        * min(THREADS, ahead[name][0] * slices if name in ahead else slices)
        * _nbytes(shape_of(plan.graph, layer, name))
        for name, layer in plan.inputs.items()
    )


def _margin(graph: Graph, layer: ImageLayer, name: str) -> tuple[int, int]:
    return graph.margins(name) if layer.border == "image" else (0, 0)


def shape_of(graph: Graph, layer: ImageLayer, name: str) -> tuple[int, int, int]:
    """Return the shape of the images that an input layer reads, with their margin."""
    (y, x), (ny, nx, nf) = _margin(graph, layer, name), layer.shape
    return ny + 2 * y, nx + 2 * x, nf


def _nbytes(shape: tuple[int, int, int]) -> int:
    return math.prod(shape) * np.dtype(np.float32).itemsize


def queues(plan: Plan, slices: int) -> dict[str, tuple[int, int]]:
    """Return the displays of each slice that are read ahead, and their bytes, of each input layer."""
    ahead = {
        name: _nbytes(shape_of(plan.graph, layer, name))
        for name, layer in plan.inputs.items()
        if layer.source.read_ahead
    }
    return {
        name: (depth(slices, nbytes), depth(slices, nbytes) * slices * nbytes)
        for name, nbytes in ahead.items()
    }


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


def log_notes(readers: Mapping[str, ImageReader]) -> None:
    """Warn of what can hardly be meant, or will make reading slow, as far as is open now."""
    noted: dict[str, list[str]] = {}
    for name, read in readers.items():
        for note in read.stream.notes:
            noted.setdefault(note, []).append(f"layers.{name}")
    for note, names in noted.items():
        log.warning("%s: %s", ", ".join(names), note)


class ImageMargin:
    """The images of a lane with their margins, read again when they are not kept."""

    def __init__(self, images: ImageReader, slices: range, ctx: StepContext, dtype: str) -> None:
        self._images, self._slices, self._ctx, self._dtype = images, slices, ctx, dtype
        self._seen: dict[int, Array] = {}

    def forget(self) -> None:
        """Read all again."""
        self._seen.clear()

    def at(self, step: int) -> Array:
        """Return the images with their margins as shown at the end of `step`, `[lanes, ...]`."""
        item = self._images.layer.shown(step, self._ctx.display)
        if item not in self._seen:
            for old in list(self._seen)[:-1]:  # a delay looks at the image before
                del self._seen[old]
            images = [self._images.around(number, item) for number in self._slices]
            self._seen[item] = self._ctx.xp.asarray(np.stack(images), self._dtype)
        return self._seen[item]


def image_margins(
    plan: Plan, readers: Mapping[str, ImageReader], slices: range, ctx: StepContext
) -> dict[str, ImageMargin]:
    """Return the margins of the layers whose border is their image, for the slices of a lane."""
    run, layers = plan.graph.network.run, plan.graph.network.layers
    return {
        name: ImageMargin(reader, slices if layers[name].batch is None else slices[:1], ctx, run.precision)
        for name, reader in readers.items()
        if reader.layer.border == "image"
    }


class LaneImages:
    """The display of images in the slices of a lane."""

    def __init__(
        self,
        plan: Plan,
        readers: Mapping[str, ImageReader],
        histories: Mapping[str, History],
        slices: range,
        backend: Backend,
    ) -> None:
        self._inputs, self._display = plan.inputs, plan.graph.network.run.display
        seen = plan.graph.upstream_of_controlled
        self._seen = [layer for name, layer in plan.inputs.items() if seen is None or name in seen]
        self._readers, self._histories, self._slices, self._backend = readers, histories, slices, backend

    def new_at(self, step: int) -> bool:
        """Return whether an image is new at `step`."""
        return any(layer.item(step, self._display) is not None for layer in self._inputs.values())

    def fresh_at(self, step: int) -> bool:
        """Return whether an image is new that layers with a time scale see."""
        return any(layer.item(step, self._display) is not None for layer in self._seen)

    def show(self, step: int) -> None:
        """Show the images that are new at `step`."""
        for name, layer in self._inputs.items():
            item = layer.item(step, self._display)
            if item is not None:
                self._backend.show(name, self._slices, item, self._histories[name].at(step))

    def begin(self, step: int) -> list[int]:
        """Return the lanes whose layers are reset before `step`, since a film begins."""
        lanes: set[int] = set()
        for name, layer in self._inputs.items():
            item = layer.item(step, self._display)
            if item is not None:
                begins = self._readers[name].begins
                lanes.update(lane for lane, number in enumerate(self._slices) if begins(number, item))
        return sorted(lanes)
