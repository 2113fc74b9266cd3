"""Images and films stacked in arrays, of files or in memory."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import accumulate
from typing import Any

import numpy as np

from petabatch.arrays import Channels
from petabatch.errors import InputError
from petabatch.sources.files import values
from petabatch.sources.gallery import Gallery
from petabatch.sources.pixels import largest
from petabatch.spec.memory import InMemory


def in_memory(data: InMemory | tuple[InMemory, ...], name: str, channels: Channels) -> Gallery:
    """Return the images of an array, or those of several, or of several films."""
    if isinstance(data, InMemory):
        return stack(data.array, name, channels)
    arrays = [one.array for one in data]
    dims = {array.ndim for array in arrays}
    if not (dims <= {2, 3} or dims == {4}):
        found = ", ".join(str(list(array.shape)) for array in arrays[:3])
        raise InputError(
            f"{name}: these are not images\n    found:    {found}{', ...' * (len(arrays) > 3)}\n"
            "    expected: images [ny, nx] or [ny, nx, nf], or films [frame, ny, nx, nf]"
        )
    films = [stack(array if dims == {4} else array[None], name, channels) for array in arrays]
    ends = list(accumulate(len(film.shapes) for film in films))

    def place(number: int) -> tuple[int, int]:
        film = bisect_right(ends, number)
        return film, number - (ends[film] - len(films[film].shapes))

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        film, frame = place(number)
        return films[film].read(frame, rows, columns)

    return Gallery(
        [shape for film in films for shape in film.shapes],
        read,
        lambda number: f"{name}[{', '.join(map(str, place(number)[: 2 if dims == {4} else 1]))}]",
        films=[len(film.shapes) for film in films] if dims == {4} else (),
        holders=[(name, len(films))],
    )


def stack(stored: Any, name: str, channels: Channels, file: Any = None) -> Gallery:
    """Return the images, or the films, of an array in an open `file`, or in memory."""
    shape = tuple(stored.shape)
    if len(shape) not in (3, 4, 5) or 0 in shape:
        axes = "nf, ny, nx" if channels == "first" else "ny, nx, nf"
        raise InputError(
            f"{name}: this is not an array of images\n    found:    {list(shape)}\n"
            f"    expected: [n, {axes}], or [n, ny, nx] for greyscale, or films [film, frame, {axes}]"
        )
    largest(stored.dtype, name)
    lead = shape[:1] if len(shape) < 5 else shape[:2]
    moved = channels == "first" and len(shape) > 3
    ny, nx, nf = (*shape[-2:], shape[-3]) if moved else (*shape[len(lead) :], 1)[:3]

    def place(number: int) -> tuple[int, ...]:
        return tuple(map(int, np.unravel_index(number, lead)))

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        part = (slice(None), rows, columns) if moved else (rows, columns)
        pixels = values(stored, f"{name}{list(place(number))}", (*place(number), *part))
        return np.moveaxis(pixels, 0, -1) if moved else pixels.reshape(*pixels.shape[:2], -1)

    return Gallery(
        [(ny, nx, nf)] * math.prod(lead),
        read,
        lambda number: f"{name}{list(place(number))}",
        films=(lead[1],) * lead[0] if len(lead) > 1 else (),
        stack=shape if not moved else (*lead, ny, nx, nf),
        holders=[(name, lead[0])],
        file=file,
    )
