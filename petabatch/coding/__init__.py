"""Sparse coding of images with a given dictionary, to a certified duality gap: `petabatch.encode`."""

from __future__ import annotations

import os
import pathlib
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from petabatch.arguments import checked, choice, flag, positive, whole_number
from petabatch.arguments import path as given_path
from petabatch.arrays import Channels, as_numpy, channels_first, channels_last, like
from petabatch.coding import file
from petabatch.coding.codes import Codes, number_of_images
from petabatch.coding.dictionary import Dictionary
from petabatch.coding.dictionary import read as read_dictionary
from petabatch.coding.images import Stack, stack
from petabatch.coding.problem import Problem, check
from petabatch.coding.solvers import Solvers
from petabatch.errors import MISSING, ArgumentError, Described
from petabatch.logs import log, shown
from petabatch.progress import with_progress
from petabatch.storage.atomic import available

__all__ = ["Codes", "encode"]

_HINT = "a run knows its threshold and stride; an array or a file does not"

Path = str | os.PathLike[str]


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
    start: Any = None,
    signed: bool | None = None,
    threads: int | None = None,
    device: Literal["cpu", "gpu"] | None = None,
    out: Path | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Codes:
    """Return the codes A of images I that minimise 0.5 |I - dictionary A|^2 + threshold |A|_1.

    By FISTA each image stops on its own when its relative duality gap is at most `gap`. Codes of one
    position, of patches as large as the images, are exact up to rounding, by homotopy (`petabatch.lasso`). A
    code does not depend on the other images. A dictionary is used as it is, at every `stride` pixels; no code
    of a run is executed.

    Parameters
    ----------
    images
        An array of any library `[n, ny, nx, channels]`, `[n, ny, nx]` if they are grey, or a list of them;
        the path of a `.npy` file, of image files, a folder or a pattern of them, or of a film; a dataset or
        an iterable, such as those of torch; or a source as in a params file, as a table or as TOML. Each
        image is coded once, in order, and may have a size of its own. Integers are scaled to the range from 0
        to 1, floats used as given.
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
        Largest relative duality gap, and largest number of steps: those of FISTA, or the atoms that enter or
        leave on the path of solutions. A warning counts the images that these are not enough for.
    start
        Codes to begin with, as `activity` of an earlier call: of the frames before, or with a dictionary that
        has changed little. Codes of one position need none.
    signed
        Whether codes may be negative; by default as in the run.
    threads
        Number of threads, by default the cores that the process may use.
    device
        The device, by default the CPU.
    out, force
        A new HDF5 file to which codes are written as they are computed; whether it may replace one of codes.
    quiet
        Whether nothing is said, on standard error, of what takes long, such as compiling for the first time.

    Returns
    -------
    Codes
        Activities, by image, with names, gaps, steps and numbers of active units: of images in arrays, on
        their device and of their library, else of numpy.

    Raises
    ------
    InputError, ArgumentError
        If images, dictionary and arguments do not go together, or codes are beyond float32.
    StorageError
        If `out` exists or cannot be written.

    Examples
    --------
    >>> images = np.zeros((2, 8, 8))
    >>> images[0, 2] = images[1, :, 5] = 1
    >>> bars = np.stack([np.eye(8)[:, [n]] * np.ones(8) for n in range(8)])
    >>> codes = petabatch.encode(images, bars, threshold=0.1, stride=8)
    >>> codes.activity.shape, int(codes[0].argmax())
    ((2, 1, 1, 8), 2)
    """
    choice("channels", channels, get_args(Channels))
    flag("force", force)
    flag("quiet", quiet)
    path = None if out is None else available(given_path("out", out), "codes.h5", "codes", force)
    weights = read_dictionary(dictionary, axes, dataset, connection)
    given = stack(images, normalize, weights, size, channels)
    _check_known(weights, threshold, stride)
    with solvers_of(weights, threshold, stride, signed, gap, steps, threads, device) as made:
        return solve(images, given, weights, made, start, channels, path, quiet)


def solvers_of(
    weights: Dictionary,
    threshold: float | None,
    stride: int | None,
    signed: bool | None,
    gap: float,
    steps: int,
    threads: int | None,
    device: Literal["cpu", "gpu"] | None,
) -> Solvers:
    """Return the solvers for arguments of `encode`, which they raise errors for."""
    _check_known(weights, threshold, stride)
    if device is not None:
        choice("device", device, ("cpu", "gpu"))
    return Solvers(
        weights.weights,
        positive("threshold", weights.threshold if threshold is None else threshold),
        whole_number("stride", weights.stride if stride is None else stride, 1),
        bool(weights.signed) if signed is None else flag("signed", signed),
        positive("gap", gap),
        whole_number("steps", steps, 1),
        None if threads is None else whole_number("threads", threads, 1),
        device,
    )


def solve(
    images: Any,
    given: Stack,
    weights: Dictionary,
    made: Solvers,
    start: Any,
    channels: Channels,
    path: pathlib.Path | None,
    quiet: bool,
) -> Codes:
    """Return the codes of images, which are read as `given`; they are of the library of `images`."""
    problem = Problem(given, weights, made)
    check(problem)
    if start is not None:
        problem = replace(problem, start=_start(start, (len(given), *problem.units), channels))
    log.info("%s", problem)
    parts = with_progress(problem.solved(), problem.parts, f"coding {number_of_images(len(given))}")
    if path is not None:
        shape = (len(given), *problem.units)
        with shown(quiet):
            file.write(path, parts, given.names(), shape, given.one_size, weights.weights, problem.attributes)
        return Codes(*file.read(path))
    with shown(quiet):
        found = list(parts)
    names = ("activity", "gap", "steps", "active")
    activity, *others = (np.concatenate([getattr(part, name) for part in found]) for name in names)
    ordered = np.ascontiguousarray(channels_first(activity, channels))
    activity, gaps, taken, active = map(like(images), (ordered, *others))
    sizes = None if given.one_size else np.concatenate([part.sizes for part in found])
    return Codes(activity, gaps, taken, active, tuple(given.names()), sizes, channels)


def _start(given: Any, shape: tuple[int, ...], channels: Channels) -> np.ndarray:
    """Return the codes to begin with, channels last."""
    if isinstance(given, Codes):
        given, channels = given.activity, given.channels
    codes = as_numpy("start", given)
    found = channels_last(codes, channels).astype(np.float32)
    if found.shape != shape or not np.isfinite(found).all():
        what = Described(f"{codes.dtype} {list(codes.shape)}")
        expected = f"finite numbers, as `activity` of codes {list(shape)} with its channels last"
        raise ArgumentError("start", "these are not codes of the images", what, expected)
    return found


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
