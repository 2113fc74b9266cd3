"""Orders of a source: which item, and which frame of it, a slice shows in which display.

An order is opened for the items of a source, given as the number of frames of each: a still image is an item
of one frame, a film one of many. The resulting playlist is a pure function of slice and display.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.random import LazyStream
from petabatch.sources.shuffle import permutation
from petabatch.spec.model import Count, Flag, Index, OneOf, Part


class Playlist(ABC):
    """What the slices of a batch show. `frame` numbers count the frames of all items."""

    displays: int | None = None
    """Number of displays until it ends; None if it does not."""

    @abstractmethod
    def frame(self, slice_: int, display: int, rng: LazyStream) -> int:
        """Return the number of the frame; `rng` returns the generator that also draws the crop."""

    @property
    def note(self) -> str:
        """What can hardly be meant; "" if there is nothing."""
        return ""

    def crop(self, slice_: int, display: int) -> tuple[int, ...]:
        """Return the key of the crop: displays with the same key have the same random crop."""
        return slice_, display

    def begins(self, slice_: int, display: int) -> bool:
        """Return whether layers are reset when this display begins, since a film does."""
        return False


class Order(Part):
    """The order in which a source shows its items.

    `order = "shuffled"` is short for `order = { type = "shuffled" }`. b is the number of the slice in a batch
    of B, and the frames of all items are counted from 0 to n - 1: an image has one, a film many.
    """

    kind: ClassVar[str] = "order"
    moving: ClassVar[bool] = False
    """Successive displays show the same part of successive frames."""
    apart: ClassVar[bool] = False
    """Each slice goes on from frame to frame at a place of its own."""
    type: str

    @property
    def resets(self) -> bool:
        """Whether the layers of a slice are reset where it begins a film."""
        return False

    @abstractmethod
    def open(self, frames: Sequence[int], batch: int, seed: int) -> Playlist:
        """Return what `batch` slices show of items with these numbers of frames.

        Raises InputError if the items do not suit the order.
        """


class Sequential(Order):
    """Slice b shows frame (display * B + b) mod n (PetaVision's `byImage`)."""

    type: Literal["sequential"] = "sequential"

    def open(self, frames: Sequence[int], batch: int, seed: int) -> Playlist:
        """Return the playlist."""
        return _Interleaved(sum(frames), batch)


class Specified(Order):
    """Slice b shows frame (start[b] + display * skip[b]) mod n (PetaVision's `bySpecified`)."""

    apart = True
    type: Literal["specified"] = "specified"
    start: Annotated[tuple[Index, ...], Field(min_length=1)]
    """First frame of each slice."""
    skip: Annotated[tuple[Count, ...], Field(min_length=1)] | Count = 1
    """Step from one display to the next, of each slice or of all."""

    def open(self, frames: Sequence[int], batch: int, seed: int) -> Playlist:
        """Return the playlist; raises InputError if a list does not have one number for each slice."""
        skip = (self.skip,) * batch if isinstance(self.skip, int) else self.skip
        for key, given in (("start", self.start), ("skip", skip)):
            _one_each(key, given, batch)
        beyond = [first for first in self.start if first >= sum(frames)]
        if beyond:
            raise InputError(
                f"order.start is beyond the end of the source\n"
                f"    found:    {beyond[0]}\n    expected: less than {sum(frames)}, the number of frames"
            ).at("order.start")
        return _Strided(sum(frames), self.start, skip)


def _one_each(key: str, given: Sequence[int], batch: int) -> None:
    """Raise InputError if there is not one number for each slice."""
    if len(given) != batch:
        raise InputError(
            f"order.{key} does not have one number for each slice\n"
            f"    found:    {len(given)} numbers\n    expected: {batch}, the batch size"
        ).at(f"order.{key}")


class Shuffled(Order):
    """Without replacement: in each epoch, the slices together show every frame once, in a random order.

    The batch size need not divide the number of frames. The order of an epoch depends on the seed of the run.
    """

    type: Literal["shuffled"] = "shuffled"

    def open(self, frames: Sequence[int], batch: int, seed: int) -> Playlist:
        """Return the playlist."""
        return _Shuffle(sum(frames), batch, seed)


class Random(Order):
    """With replacement: each display of each slice draws one of the frames, all equally likely."""

    type: Literal["random"] = "random"

    def open(self, frames: Sequence[int], batch: int, seed: int) -> Playlist:
        """Return the playlist."""
        return _Draw(sum(frames))


class ByMovie(Order):
    """Successive frames with a fixed crop: slice b starts from b * floor(n / B) (PetaVision's `byMovie`)."""

    moving = apart = True
    type: Literal["by_movie"] = "by_movie"
    start: tuple[Index, ...] = ()
    """Frames by which each slice starts later (start_frame_index); by default 0."""

    def open(self, frames: Sequence[int], batch: int, seed: int) -> Playlist:
        """Return the playlist; raises InputError if a list does not have one number for each slice."""
        if self.start:
            _one_each("start", self.start, batch)
        return _Parts(sum(frames), batch, self.start or (0,) * batch)


class Movie(Order):
    """A film for each slice: slice b shows films b, b + B, b + 2 B, ..., each from its first frame on.

    A random crop is the same for all frames of a film.
    """

    moving = apart = True
    type: Literal["movie"] = "movie"
    every: Count = 1
    """Show every k-th frame of a film."""
    at_end: Literal["next", "again", "hold", "stop"] = "next"
    """What follows the last frame of a film. `next`: the next film of the slice. `again`: the same film from
    its first frame. `hold`: the last frame remains. `stop`: nothing; further films are not shown, and the run
    may be as long as `end` allows."""
    end: Literal["wrap", "hold", "shortest", "longest"] = "wrap"
    """What follows the last frame of a slice's last film. `wrap`: its first film; after `at_end = "stop"` as
    `shortest`. `hold`: the last frame remains. `shortest`: the run may be as long as the slice with the
    fewest frames allows. `longest`: the run may be as long as the slice with the most frames allows; the last
    frames of other slices remain."""
    reset: Flag = False
    """Reset the layers of a slice to their initial state when it begins a film."""

    @property
    def resets(self) -> bool:
        """The key `reset`."""
        return self.reset

    @model_validator(mode="after")
    def _ends_if_it_counts(self) -> Movie:
        if self.at_end in ("again", "hold") and self.end in ("shortest", "longest"):
            raise PydanticCustomError(
                "endless_films",
                "films that do not end have no shortest and no longest",
                {
                    "got": f'at_end = "{self.at_end}", end = "{self.end}"',
                    "expected": 'at_end = "next" or "stop" with this end',
                },
            )
        return self

    def open(self, frames: Sequence[int], batch: int, seed: int) -> Playlist:
        """Return the playlist; raises InputError if there is not a film for each slice."""
        problem = None
        if max(frames) == 1:
            problem = (
                f"order 'movie' shows films, each slice its own\n    found:    {len(frames)} single images"
            )
        elif len(frames) < batch:
            problem = f"there are fewer films than slices\n    found:    {len(frames)} for a batch of {batch}"
        if problem is not None:
            raise InputError(
                f"{problem}\n    expected: at least {batch} films\n"
                f'    hint:     order = "by_movie" shows each slice another part of all frames'
            ).at("order")
        return _Films(self, frames, batch)


def _from_name(order: Any) -> Any:
    return {"type": order} if isinstance(order, str) else order


AnOrder = Annotated[Order, OneOf(Order), BeforeValidator(_from_name)]
"""An order as a key of a source: a table, or its type alone."""


@dataclass(frozen=True)
class _Interleaved(Playlist):
    count: int
    batch: int

    def frame(self, slice_: int, display: int, rng: LazyStream) -> int:
        return (display * self.batch + slice_) % self.count


@dataclass(frozen=True)
class _Parts(Playlist):
    count: int
    batch: int
    later: tuple[int, ...]

    @property
    def note(self) -> str:
        if self.count >= self.batch or self.batch == 1 or any(self.later):
            return ""
        return (
            f'order = "by_movie" starts all {self.batch} slices at the first frame, and they show the same: '
            f"there are fewer frames ({self.count}) than slices"
        )

    def frame(self, slice_: int, display: int, rng: LazyStream) -> int:
        return (self.later[slice_] + slice_ * (self.count // self.batch) + display) % self.count

    def crop(self, slice_: int, display: int) -> tuple[int, ...]:
        return (slice_,)


@dataclass(frozen=True)
class _Strided(Playlist):
    count: int
    first: tuple[int, ...]
    step: tuple[int, ...]

    def frame(self, slice_: int, display: int, rng: LazyStream) -> int:
        return (self.first[slice_] + display * self.step[slice_]) % self.count


@dataclass(frozen=True)
class _Shuffle(Playlist):
    count: int
    batch: int
    seed: int

    def frame(self, slice_: int, display: int, rng: LazyStream) -> int:
        epoch, index = divmod(display * self.batch + slice_, self.count)
        return permutation(self.count, self.seed, "shuffle", epoch)[index]


@dataclass(frozen=True)
class _Draw(Playlist):
    count: int

    def frame(self, slice_: int, display: int, rng: LazyStream) -> int:
        return int(rng().integers(self.count))


class _Films(Playlist):
    """Films of each slice, one after the other."""

    def __init__(self, order: Movie, frames: Sequence[int], batch: int) -> None:
        self._order = order
        self._origin = [0, *accumulate(frames)]
        chain = order.at_end == "next"
        self._films = [list(range(b, len(frames), batch))[: None if chain else 1] for b in range(batch)]
        lengths = [[-(-frames[film] // order.every) for film in films] for films in self._films]
        self._starts = [[0, *accumulate(each)] for each in lengths]
        """Display in which each film of a slice begins, and at which the last one ends."""
        if order.at_end in ("next", "stop"):
            totals = [starts[-1] for starts in self._starts]
            ends = {"shortest": min(totals), "longest": max(totals)}
            if order.at_end == "stop":
                ends["wrap"] = min(totals)
            self.displays = ends.get(order.end)

    def frame(self, slice_: int, display: int, rng: LazyStream) -> int:
        position, film, _ = self._at(slice_, display)
        into = position - self._starts[slice_][film]
        return self._origin[self._films[slice_][film]] + into * self._order.every

    def crop(self, slice_: int, display: int) -> tuple[int, ...]:
        _, film, turn = self._at(slice_, display)
        return slice_, self._films[slice_][film], turn

    def begins(self, slice_: int, display: int) -> bool:
        if not self._order.reset or display == 0:
            return False
        now, before = self._at(slice_, display), self._at(slice_, display - 1)
        return now[1:] != before[1:]

    def _at(self, slice_: int, display: int) -> tuple[int, int, int]:
        """Return the position in the films of a slice, the film there, and how often they began before."""
        starts, order = self._starts[slice_], self._order
        wraps = order.at_end == "again" or (order.at_end == "next" and order.end == "wrap")
        turn, position = divmod(display, starts[-1]) if wraps else (0, min(display, starts[-1] - 1))
        return position, bisect_right(starts, position) - 1, turn
