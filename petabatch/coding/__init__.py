"""Sparse coding of images with a given dictionary, to a certified duality gap: `petabatch.encode`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, get_args

import numpy as np

from petabatch.arguments import checked, choice, flag, positive, whole_number
from petabatch.arguments import path as given_path
from petabatch.arrays import Channels, as_numpy, channels_first, like
from petabatch.coding import file
from petabatch.coding.dictionary import Dictionary
from petabatch.coding.dictionary import read as read_dictionary
from petabatch.coding.images import Stack, stack
from petabatch.connections import Conv
from petabatch.errors import MISSING, ArgumentError, ResourceError, install
from petabatch.layers import FISTA, Input
from petabatch.logs import log
from petabatch.network.sparse_coding import sparse_coding
from petabatch.probes import Optimality
from petabatch.progress import with_progress
from petabatch.simulator import Simulator
from petabatch.sources import ImageArray
from petabatch.sources.transforms import Transform
from petabatch.spec.network import LayerOutput, Network, Output, Run, Until
from petabatch.spec.parts import DISPLAY, NEVER
from petabatch.storage.atomic import available
from petabatch.weights import Unchanged, WeightArray

_BYTES = 2**27
"""Bytes of the codes of images that are coded together."""

_RECORDED = ("layers/code/A", "probes/until/gap", "probes/until/steps")
_LISTED = 8
"""Images in the table of a notebook."""
_HINT = "a run knows its threshold and stride; an array or a file does not"

Path = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Codes:
    """The result of `encode`."""

    activity: Any
    """float32 `[n, ny / stride, nx / stride, features]`, of the library and on the device of the images, as
    are the other arrays; `[n, features, ...]` with `channels="first"`. With `out`, the dataset of the file,
    channels last, read when it is indexed."""
    gap: Any
    """float64 `[n]`, relative duality gap: each energy is at most this fraction above its minimum."""
    steps: Any
    """int64 `[n]`: number of steps for each image."""
    active: Any
    """int64 `[n]`: number of active units for each image."""
    names: tuple[str, ...] = ()
    """Name of each image, such as that of its file."""

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.gap)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all activities as one array."""
        return np.array(self.activity, dtype=dtype, copy=copy)

    def to_pandas(self) -> Any:
        """Return a row for each image, by its name: active units, relative gap, steps.

        Needs the `analysis` extra: raises ResourceError without it.
        """
        try:
            import pandas
        except ImportError as error:
            raise ResourceError(f"pandas is not installed\n    hint:     {install('analysis')}") from error
        kept = {"active": self.active, "gap": self.gap, "steps": self.steps}
        columns = {name: as_numpy("codes", values) for name, values in kept.items()}
        return pandas.DataFrame(columns, pandas.Index(self.names or range(len(self)), name="image"))

    def __repr__(self) -> str:
        shape = tuple(self.activity.shape)
        gap, steps, active = (as_numpy("codes", one) for one in (self.gap, self.steps, self.active))
        return (
            f"<codes of {_images(shape[0])}, [{', '.join(map(str, shape[1:]))}] each: "
            f"{active.sum() / max(1, math.prod(shape)):.2%} active, "
            f"relative gap at most {gap.max(initial=0):.2g}, {steps.mean():.0f} steps on average>"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: how the images were coded, and a table of the first."""
        head, count = f"<div><p>{escape(repr(self).strip('<>'))}</p>", min(_LISTED, len(self))
        gap, steps, active = (as_numpy("codes", one) for one in (self.gap, self.steps, self.active))
        names = self.names or tuple(map(str, range(len(self))))
        cells = zip(names[:count], active, steps, (f"{one:.2g}" for one in gap), strict=False)
        rows = "".join(f"<tr>{''.join(f'<td>{escape(str(one))}</td>' for one in row)}</tr>" for row in cells)
        columns = "".join(f"<th>{one}</th>" for one in ("image", "active units", "steps", "gap"))
        more = f"<p>and {len(self) - count:,} more</p>" if len(self) > count else ""
        return f"{head}<table><tr>{columns}</tr>{rows}</table>{more}</div>"


@dataclass(frozen=True)
class _Problem:
    """What is minimised for each image, and how far."""

    images: Stack
    dictionary: Dictionary
    threshold: float
    stride: int
    signed: bool
    gap: float
    steps: int
    threads: int | None
    device: Literal["cpu", "gpu"] | None

    @property
    def units(self) -> tuple[int, int, int]:
        """Shape of a code."""
        rows, columns, _ = self.images.shape
        return rows // self.stride, columns // self.stride, len(self.dictionary.weights)

    @property
    def attributes(self) -> dict[str, object]:
        """What a file of the codes says about them."""
        return {
            "dictionary_from": self.dictionary.name,
            "threshold": self.threshold,
            "stride": self.stride,
            "signed": int(self.signed),
            "transforms": json.dumps([_short(step) for step in self.images.view.steps]),
            "factor": self.dictionary.factor,
            "gap_wanted": self.gap,
            "most_steps": self.steps,
        }

    def __str__(self) -> str:
        steps = ", ".join(step.type for step in self.images.view.steps)
        return (
            f"{_images(len(self.images))} of {list(self.images.shape)}, transforms: {steps}; "
            f"dictionary: {self.dictionary.name}, threshold {self.threshold}, "
            f"stride {self.stride}{', signed' if self.signed else ''}"
        )

    @property
    def together(self) -> int:
        """Number of images that are coded together."""
        return max(1, _BYTES // (4 * int(np.prod(self.units))))

    @property
    def parts(self) -> int:
        """Number of such parts."""
        return -(-len(self.images) // self.together)

    def solved(self) -> Iterator[Codes]:
        """Yield the codes of the images in order, of some at a time."""
        for first in range(0, len(self.images), self.together):
            last = min(first + self.together, len(self.images))
            yield self._part(self.images.read(first, last))

    def _part(self, images: np.ndarray) -> Codes:
        run = Run(
            batch=len(images),
            display=self.steps,
            displays=1,
            until=Until(gap=self.gap),
            threads=self.threads,
        )
        network = _network(self, run, images * np.float32(self.dictionary.factor))
        with Simulator(network, device=self.device, mpi=False) as sim:
            sim._live.undo = None  # after an error there are no codes
            sim.run(quiet=True)
            activity, gap, steps = (sim.recorded[path][0] for path in _RECORDED)
        active = np.count_nonzero(activity, axis=(1, 2, 3))
        return Codes(activity, gap, steps.astype(np.int64), active.astype(np.int64))


@checked()
def encode(
    images: Any,
    dictionary: Any,
    threshold: float | None = None,
    *,
    stride: int | None = None,
    axes: str | None = None,
    dataset: str | None = None,
    connection: str | None = None,
    channels: Channels = "last",
    normalize: Literal["none", "mean", "standard", "norm", "range", "petavision"] | None = None,
    size: tuple[int, int] | None = None,
    gap: float = 1e-2,
    steps: int = 1000,
    signed: bool | None = None,
    threads: int | None = None,
    device: Literal["cpu", "gpu"] | None = None,
    out: Path | None = None,
    force: bool = False,
) -> Codes:
    """Return the codes A of images I that minimise 0.5 |I - dictionary A|^2 + threshold |A|_1, by FISTA.

    Each image stops on its own when its relative duality gap is at most `gap`, so its code does not depend on
    the other images. A dictionary is used as it is, at every `stride` pixels; no code of a run is executed.

    Parameters
    ----------
    images
        An array of any library `[n, ny, nx, channels]`, `[n, ny, nx]` if they are grey, or a list of them;
        the path of a `.npy` file, of image files, a folder or a pattern of them, or of a film; a dataset or
        an iterable, such as those of torch; or a source as in a params file, as a table or as TOML. Each
        image is coded once, in order. Integers are scaled to the range from 0 to 1, floats used as given.
    dictionary
        An array `[features, rows, columns, channels]`; a `.npy`, `.mat` or HDF5 file; or a run, by its path
        or opened: its newest weights, recorded or in its newest checkpoint.
    threshold, stride
        The sparsity penalty, and the pixels from one patch to the next; by default those of the run.
    axes
        Axes of a dictionary in another order: "oihw" for PyTorch (o is the feature, i the channel of the
        image, which may be missing).
    dataset, connection
        Names of the dictionary in a file, or in a run that has several.
    channels
        Axis of the channels of images, and of the features of their codes.
    normalize
        How images are normalised, which a source says itself. By default they are transformed as in the run
        of the dictionary, without its random choices.
    size
        Rows and columns of the part in the middle of each image that is coded, by default all.
    gap, steps
        Largest relative duality gap, and largest number of steps.
    signed
        Whether codes may be negative; by default as in the run.
    threads
        Number of threads, by default the cores that the process may use.
    device
        The device, by default the CPU.
    out, force
        A new HDF5 file to which codes are written as they are computed; whether it may replace one of codes.

    Returns
    -------
    Codes
        Activities, gaps, steps and numbers of active units: of images in arrays, on their device and of their
        library, else of numpy.

    Raises
    ------
    InputError, ArgumentError
        If images, dictionary and arguments do not go together.
    StorageError
        If `out` exists or cannot be written.

    Examples
    --------
    >>> images = np.zeros((2, 8, 8))
    >>> images[0, 2] = images[1, :, 5] = 1
    >>> bars = np.stack([np.eye(8)[:, [n]] * np.ones(8) for n in range(8)])
    >>> codes = petabatch.encode(images, bars, threshold=0.1, stride=8)
    >>> codes.activity.shape, int(codes.activity[0].argmax())
    ((2, 1, 1, 8), 2)
    """
    choice("channels", channels, get_args(Channels))
    flag("force", force)
    if device is not None:
        choice("device", device, ("cpu", "gpu"))
    path = None if out is None else available(given_path("out", out), "codes.h5", "codes", force)
    weights = read_dictionary(dictionary, axes, dataset, connection)
    shown = stack(images, normalize, weights, size, channels)
    _check_known(weights, threshold, stride)
    problem = _Problem(
        shown,
        weights,
        positive("threshold", weights.threshold if threshold is None else threshold),
        whole_number("stride", weights.stride if stride is None else stride, 1),
        bool(weights.signed) if signed is None else flag("signed", signed),
        positive("gap", gap),
        whole_number("steps", steps, 1),
        None if threads is None else whole_number("threads", threads, 1),
        device,
    )
    _check(problem)
    log.info("%s", problem)
    parts = with_progress(problem.solved(), problem.parts, f"coding {_images(len(shown))}")
    if path is None:
        columns = zip(*((part.activity, part.gap, part.steps, part.active) for part in parts), strict=True)
        activity, *others = map(np.concatenate, columns)
        ordered = np.ascontiguousarray(channels_first(activity, channels))
        activity, gaps, taken, active = map(like(images), (ordered, *others))
        return Codes(activity, gaps, taken, active, tuple(shown.names()))
    shape = (len(shown), *problem.units)
    file.write(path, parts, shown.names(), shape, weights.weights, problem.attributes)
    return Codes(*file.read(path))


def _short(step: Transform) -> dict[str, Any]:
    return {"type": step.type, **step.model_dump(mode="json", exclude_defaults=True)}


def _check_known(dictionary: Dictionary, threshold: float | None, stride: int | None) -> None:
    """Raise an error that names all arguments which neither the caller nor a run gives."""
    missing = {
        name: meaning
        for name, given, known, meaning in (
            ("threshold", threshold, dictionary.threshold, "the sparsity penalty lambda"),
            ("stride", stride, dictionary.stride, "the pixels from one patch to the next"),
        )
        if given is None and known is None
    }
    if missing:
        what = "this argument is missing" if len(missing) == 1 else "these arguments are missing"
        raise ArgumentError(", ".join(missing), what, MISSING, " and ".join(missing.values()), _HINT)


def _images(number: int) -> str:
    return f"{number:,} image{'' if number == 1 else 's'}"


def _check(problem: _Problem) -> None:
    """Raise an error if the dictionary does not fit on the images."""
    rows, columns, _ = problem.images.shape
    high, wide = problem.dictionary.weights.shape[1:3]
    if high > rows or wide > columns:
        expected = f"at most {rows} rows and {columns} columns"
        raise ArgumentError("dictionary", "its patches are larger than the images", (high, wide), expected)
    if rows % problem.stride or columns % problem.stride:
        expected = f"a divisor of {rows} rows and {columns} columns"
        hint = "code a part of each image with `size`"
        raise ArgumentError("stride", "the stride does not divide the images", problem.stride, expected, hint)


def _network(problem: _Problem, run: Run, images: np.ndarray) -> Network:
    """Return image -> error -> code -> recon -> error, one image for each slice."""
    weights = problem.dictionary.weights
    return sparse_coding(
        Input(shape=problem.images.shape, source=ImageArray(data=images, crop="top_left"), every=NEVER),
        FISTA(shape=problem.units, threshold=problem.threshold, signed=problem.signed),
        Conv(
            pre="code",
            post="recon",
            patch=weights.shape[1:3],
            init=WeightArray(data=weights),
            normalize=Unchanged(),
        ),
        run=run,
        probes={
            "optimality": Optimality(
                image="image",
                reconstruction="recon",
                code="code",
                drive="drive",
                coefficient=problem.threshold,
                signed=problem.signed,
                every=NEVER,
            )
        },
        output=Output(layers={"code": LayerOutput(every=DISPLAY)}),
    )
