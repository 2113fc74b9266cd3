"""Sparse coding of images with a given dictionary, to a certified duality gap: `petabatch.encode`."""

from __future__ import annotations

import os
from typing import Any, Literal, get_args

import numpy as np

from petabatch.arguments import checked, choice, flag, positive, whole_number
from petabatch.arguments import path as given_path
from petabatch.arrays import Channels, channels_first, like
from petabatch.coding import file
from petabatch.coding.codes import Codes, number_of_images
from petabatch.coding.dictionary import Dictionary
from petabatch.coding.dictionary import read as read_dictionary
from petabatch.coding.images import stack
from petabatch.coding.problem import Problem, check
from petabatch.errors import MISSING, ArgumentError
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
    signed: bool | None = None,
    threads: int | None = None,
    device: Literal["cpu", "gpu"] | None = None,
    out: Path | None = None,
    force: bool = False,
    quiet: bool = False,
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
        Largest relative duality gap, and largest number of steps; a warning counts the images that these are
        not enough for.
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
    if device is not None:
        choice("device", device, ("cpu", "gpu"))
    path = None if out is None else available(given_path("out", out), "codes.h5", "codes", force)
    weights = read_dictionary(dictionary, axes, dataset, connection)
    given = stack(images, normalize, weights, size, channels)
    _check_known(weights, threshold, stride)
    problem = Problem(
        given,
        weights,
        positive("threshold", weights.threshold if threshold is None else threshold),
        whole_number("stride", weights.stride if stride is None else stride, 1),
        bool(weights.signed) if signed is None else flag("signed", signed),
        positive("gap", gap),
        whole_number("steps", steps, 1),
        None if threads is None else whole_number("threads", threads, 1),
        device,
    )
    check(problem)
    log.info("%s", problem)
    parts = with_progress(problem.solved(), problem.parts, f"coding {number_of_images(len(given))}")
    if path is not None:
        shape = (len(given), *problem.units)
        with shown(quiet):
            file.write(path, parts, given.names(), shape, weights.weights, problem.attributes)
        return Codes(*file.read(path))
    with shown(quiet):
        columns = zip(*((part.activity, part.gap, part.steps, part.active) for part in parts), strict=True)
        activity, *others = map(np.concatenate, columns)
    ordered = np.ascontiguousarray(channels_first(activity, channels))
    activity, gaps, taken, active = map(like(images), (ordered, *others))
    return Codes(activity, gaps, taken, active, tuple(given.names()))


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
