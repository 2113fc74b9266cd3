"""Codes of a stream of images, some at a time, in the memory of these."""

from __future__ import annotations

import inspect
from collections.abc import Iterable as Images
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from petabatch.arguments import check_names, check_types, checked, choice, flag, whole_number
from petabatch.arrays import channels_first
from petabatch.coding import encode, solve, solvers_of
from petabatch.coding.codes import Codes
from petabatch.coding.dictionary import Dictionary, read
from petabatch.coding.images import stack
from petabatch.errors import ArgumentError
from petabatch.sources import Iterable

_SOLVING = ("threshold", "stride", "signed", "gap", "steps", "threads", "device")
"""Arguments of `encode` that say how images are coded, in the order of `solvers_of`."""
_UNUSABLE = {
    **dict.fromkeys(("out", "force"), "a stream is not written to a file"),
    "start": "a stream has no codes to begin with",
}
"""Arguments of `encode` that streams do not have, and why."""


@checked()
def encode_stream(
    images: Images[Any], dictionary: Any, threshold: float | None = None, *, batch: int = 256, **options: Any
) -> Iterator[Codes]:
    """Yield the codes of images in order, `batch` of them at a time, as they are taken from an iterable.

    Only these images and their codes are in memory. Codes are those of `encode`, bit for bit, however many
    there are at a time.

    Parameters
    ----------
    images
        An iterable, such as a generator or a `DataLoader`: of images `[ny, nx, channels]` or `[ny, nx]`, or
        of batches of them `[n, ny, nx, channels]`, of any library.
    dictionary, threshold
        As for `encode`. A run is read once, before the first image.
    batch
        Images that are coded together.
    options
        The other arguments of `encode`, but `out`, `force` and `start`.

    Returns
    -------
    Iterator of Codes
        Codes of `batch` images, and at the end of those that are left.

    Raises
    ------
    InputError, ArgumentError
        As `encode`: for arguments of unusable types at once, else when the codes of the images concerned are
        asked for.

    Examples
    --------
    >>> images = (np.eye(8) * scale for scale in range(5))
    >>> [len(codes) for codes in petabatch.encode_stream(images, np.eye(8)[None], 0.1, stride=8, batch=2)]
    [2, 2, 1]
    """
    batch = whole_number("batch", batch, 1)
    check_names(encode, options)
    known = inspect.signature(encode).bind((), dictionary, threshold, **options)
    check_types(encode, options)
    for name, why in _UNUSABLE.items():
        if name in options:
            raise ArgumentError(name, why, options[name], hint="`encode` takes it")
    channels = choice("channels", options.get("channels", "last"), ("last", "first"))
    if not hasattr(images, "__iter__"):
        raise ArgumentError("images", "these are not images one after the other", images, "an iterable")
    flag("quiet", options.get("quiet", False))
    known.apply_defaults()
    weights = read(dictionary, *(known.arguments[name] for name in ("axes", "dataset", "connection")))
    return _parts(Iterable(data=images, channels=channels).images(images), weights, batch, known.arguments)


def _parts(
    images: Iterator[Any], dictionary: Dictionary, batch: int, given: dict[str, Any]
) -> Iterator[Codes]:
    first, channels = 0, given["channels"]
    with solvers_of(dictionary, *(given[name] for name in _SOLVING)) as made:
        while part := list(islice(images, batch)):
            own = [channels_first(image, channels) for image in part]
            read = stack(own, given["normalize"], dictionary, given["size"], channels)
            codes = solve(own, read, dictionary, made, None, channels, None, given["quiet"])
            yield replace(codes, names=tuple(f"images[{first + number}]" for number in range(len(part))))
            first += len(part)
