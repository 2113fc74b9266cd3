"""The images that are coded: an array, files, or a source as in a params file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast, get_args

import numpy as np

from petabatch.arguments import choice, whole_number
from petabatch.arrays import Channels, is_array
from petabatch.coding.datasets import array_shapes, listed
from petabatch.coding.dictionary import Dictionary
from petabatch.errors import ArgumentError, Described, InputError, TableError
from petabatch.layers import Input
from petabatch.lazy_property import lazy_property
from petabatch.sources import Dataset, ImageArray, Images, Iterable, Video
from petabatch.sources.gallery import Gallery
from petabatch.sources.headers import raise_together
from petabatch.sources.orders import Sequential
from petabatch.sources.pixels import convertible, largest
from petabatch.sources.transforms import Normalize, Transform
from petabatch.sources.view import View
from petabatch.spec.parts import NEVER, Source

_FILMS = (".mp4", ".mkv", ".avi", ".mov", ".webm", ".m4v", ".mpg", ".mpeg")
_EXPECTED = "an array [n, ny, nx, channels], a path, a dataset, an iterable, or a source as in a params file"
_METHODS = (*get_args(Normalize.model_fields["method"].annotation), "none")


class Stack:
    """Images, each read when it is coded."""

    def __init__(
        self,
        view: View,
        gallery: Gallery,
        sizes: Sequence[tuple[int, int]],
        channels: int,
        some: bool = False,
    ) -> None:
        """Take all images of a gallery, `some` of those of the view; `sizes` are rows and columns of each."""
        self.view, self.gallery, self.sizes = view, gallery, sizes
        rows, columns = zip(*sizes, strict=True)
        self.shape = max(rows), max(columns), channels
        """That of each image, if they are all of one size, else of one that each fits into."""
        self._some = some
        self._block = gallery.block if self._shows_all() else None

    def __len__(self) -> int:
        return len(self.sizes)

    @lazy_property
    def _read(self) -> Callable[[int, int], np.ndarray]:
        if self._some:
            return self.view.read(self.gallery, self.shape)
        return self.view.open(self.shape, len(self.gallery.shapes), seed=1)

    @property
    def one_size(self) -> bool:
        """Whether all images have the same rows and columns."""
        return len(set(self.sizes)) == 1

    def by_size(self, first: int, last: int) -> Iterator[tuple[list[int], Stack]]:
        """Yield images `first` to `last - 1` of each size, with their numbers."""
        numbers = dict[tuple[int, int], list[int]]()
        for number in range(first, last):
            numbers.setdefault(self.sizes[number], []).append(number)
        for size, own in numbers.items():
            some = self.gallery.of(own)
            yield own, Stack(self.view, some, [size] * len(own), self.shape[2], some=True)

    def _shows_all(self) -> bool:
        """Return whether images are shown as they are stored: the only transform is a crop of all of each."""
        steps = self.view.steps
        if len(steps) != 1 or steps[0].type != "crop" or steps[0].random:
            return False
        return set(self.gallery.shapes) == {self.shape} == {steps[0].result(self.shape, self.shape)}

    def names(self) -> Iterator[str]:
        """Yield the name of each image: its file, or its index in a file."""
        return map(self.gallery.name, range(len(self)))

    def read(self, first: int, last: int) -> np.ndarray:
        """Return images `first` to `last - 1`, of one size, float32 `[n, ny, nx, channels]`, normalised."""
        if self._block is not None:
            stored = self._block(first, last)
            top = largest(stored.dtype, self.gallery.name(first))
            pixels = (stored if top == 1 else stored / top).astype(np.float32, copy=False)
            if np.isfinite(pixels).all():  # else the image with such pixels is named
                return pixels
        return np.stack([self._read(number, 0) for number in range(first, last)])


def stack(given: Any, normalize: str | None, dictionary: Dictionary, size: Any, channels: Channels) -> Stack:
    """Return the images, each once, in order, for a dictionary.

    They are transformed as the source says or `normalize`, or else as in the run of the dictionary. `size` is
    that of the part of each image that is coded, by default all of it. Raises InputError if the images cannot
    be read, TableError if the source is invalid, ArgumentError if the arguments are.
    """
    if normalize is not None:
        choice("normalize", normalize, _METHODS)
    view = _view(given, channels)
    if {"normalize", "transforms"} & view.model_fields_set:
        if normalize is not None:
            hint = "leave out one of the two"
            raise ArgumentError("normalize", "the source has transforms of its own", normalize, hint=hint)
        steps = view.steps
    else:
        steps = _steps(view.short[0], normalize, dictionary)
    view = type(view)(**{**dict(view), "order": Sequential(), "slices": "own"}).with_steps(steps)
    patches = dictionary.weights.shape
    gallery, depth = view.gallery(), patches[3]
    raise_together(list(gallery.bad.values()))
    if _is_single(gallery, depth):
        raise InputError(
            f"{gallery.name(0).partition('[')[0]}: these are not grey images\n"
            f"    found:    {[len(gallery.shapes), *gallery.shapes[0][:2]]}\n"
            f"    expected: [n, ny, nx, {depth}]\n"
            "    hint:     is this a single image? images[None] is a stack of one"
        )
    # Files may be converted from colours to grey, and back.
    exact = gallery.stack is not None or view.of_numbers
    wanted = view.chain((1, 1, depth)).wanted
    for shape in set(gallery.shapes):
        if wanted is not None and shape[2] != wanted and (exact or not convertible(shape[2], wanted)):
            raise _other_channels(gallery, shape, patches)
    shown = {one: view.chain((*one[:2], depth)).result(one) for one in set(gallery.shapes)}
    sizes = [shown[one][:2] for one in gallery.shapes]
    if size is not None:
        rows, columns = _size(size)
        if small := next((one for one in sorted(set(sizes)) if one[0] < rows or one[1] < columns), None):
            expected = f"at most {small[0]} rows and {small[1]} columns"
            raise ArgumentError("size", "an image is smaller than this", (rows, columns), expected)
        sizes = [(rows, columns)] * len(sizes)
    if len(set(sizes)) > 1 and (view.unfitted or type(view).open is not View.open):
        raise _of_one_size(gallery, sorted(set(sizes)))
    return Stack(view, gallery, sizes, depth)


def _of_one_size(gallery: Gallery, sizes: Sequence[tuple[int, int]]) -> InputError:
    """Return the error about images that differ in size, of a source that gives them one."""
    return InputError(
        f"{gallery.name(0)} and {len(gallery.shapes) - 1} more: the images differ in size\n"
        f"    found:    {' x '.join(map(str, sizes[0]))} to {' x '.join(map(str, sizes[-1]))} pixels, and "
        "transforms that are fitted to all, or a reader of your own\n"
        "    hint:     code a part of each with `size`, the numbers of rows and columns"
    )


def _steps(crop: Transform, normalize: str | None, dictionary: Dictionary) -> tuple[Transform, ...]:
    """Return a crop and a normalisation, or what has been done in the run to images that it showed."""
    if normalize is not None:
        method = Normalize.model_validate({"method": normalize}) if normalize != "none" else None
        return (crop,) if method is None else (crop, method)
    usual = dictionary.transforms or ()
    settled = [step.settled(crop, dictionary.layer) for step in usual]
    first = [] if any(step.type == crop.type for step in usual) else [crop]
    return tuple(step for step in (*first, *settled) if step is not None)


def _is_single(gallery: Gallery, channels: int) -> bool:
    """Return whether an array looks like one colour image, not like grey images."""
    shape = gallery.stack or ()
    return len(shape) == 3 and channels > 1 and shape[2] == channels


def _view(given: Any, channels: Channels) -> View:
    try:
        return _found(given, channels)
    except TableError as error:
        one = error.problems[0]
        key = f"{one.key}: " if isinstance(given, dict) and one.key else ""
        raise ArgumentError(
            "images", f"{key}{one.message}", Described(one.found), one.expected, one.hint
        ) from None


def _found(given: Any, channels: Channels) -> View:
    """Return the source of images, of whatever kind they are."""
    if isinstance(given, str) and given.lstrip().startswith("{"):
        given = _table(given)
    if isinstance(given, dict | Source):
        source = Input(shape=(1, 1, 1), source=given, every=NEVER).source
        if not source.traced:
            raise ArgumentError("images", "this source has no list of images", source.type, "images or films")
        return cast(View, source)
    if isinstance(given, str | os.PathLike):
        return _of_path(os.fspath(given), channels)
    if isinstance(given, list | tuple) and given and all(isinstance(one, str | os.PathLike) for one in given):
        return Images(files=tuple(map(os.fspath, given)), crop="center")
    if is_array(given) or isinstance(given, list | tuple):
        return _Arrays(data=given, crop="center", channels=channels)
    if hasattr(given, "__len__") and hasattr(given, "__getitem__") and not isinstance(given, bytes | range):
        return _Items(data=given, crop="center", channels=channels)
    if hasattr(given, "__iter__") and not isinstance(given, bytes | range | set):
        images = list(Iterable(data=given, channels=channels).images(given))
        return _Arrays(data=images, crop="center")
    raise ArgumentError("images", "these are not images", given, _EXPECTED)


class _Arrays(ImageArray):
    """Arrays of images as an argument."""

    given_as = "images"


class _Items(Dataset):
    """An object with images as an argument."""

    given_as = "images"


def _of_path(path: str, channels: Channels) -> View:
    if path.endswith((".h5", ".hdf5")):
        found = array_shapes(path)
        named = next((name for name, shape in found.items() if len(shape) in (3, 4)), "...")
        expected = f'a source, as {{ type = "array", file = "{path}", dataset = "{named}" }}'
        hint = f"arrays in it: {listed(found)}"
        raise ArgumentError("images", "the dataset of an HDF5 file is missing", path, expected, hint)
    if path.endswith((".npy", ".npz", ".mat")) and not any(sign in path for sign in "*?["):
        return ImageArray(file=path, crop="center", channels=channels)
    return (Video if path.lower().endswith(_FILMS) else Images)(files=path, crop="center")


def _table(text: str) -> Any:
    try:
        return tomllib.loads(f"source = {text}")["source"]
    except tomllib.TOMLDecodeError as error:
        example = '{ type = "photographs", names = ["coffee"] }'
        raise ArgumentError("images", f"this is not a table of TOML: {error}", text, example) from None


def _size(size: Any) -> tuple[int, int]:
    try:
        rows, columns = size
    except (TypeError, ValueError):
        raise ArgumentError("size", "this is not a size", size, "two numbers: rows and columns") from None
    return whole_number("size", rows, 1), whole_number("size", columns, 1)


def _other_channels(gallery: Gallery, shape: tuple[int, int, int], patches: tuple[int, ...]) -> InputError:
    name, channels = gallery.name(gallery.shapes.index(shape)), patches[3]
    hint = ""
    if shape[0] == channels and not shape[2] == patches[1] < channels:
        hint = 'are the channels of the images their first axis, as in PyTorch? channels = "first"'
    elif shape[2] == patches[1]:
        hint = 'are the channels of the dictionary its second axis, as in PyTorch? axes = "oihw"'
    return InputError(
        f"{name}: images and dictionary have different numbers of channels\n"
        f"    found:    {shape[2]}, in an image of shape {list(shape)}\n"
        f"    expected: {channels}, as in the dictionary {list(patches)}"
        + (f"\n    hint:     {hint}" if hint else "")
    )
