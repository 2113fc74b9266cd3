"""Sound: WAV files as images of one row."""

from __future__ import annotations

import struct
import wave
from collections.abc import Sequence
from typing import Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.regular_files import open_regular
from petabatch.sources.files import unreadable
from petabatch.sources.gallery import NOTHING, Gallery
from petabatch.sources.over_files import errors_of, over_files
from petabatch.sources.paths import Files, find_files
from petabatch.sources.shared import shared
from petabatch.sources.view import View

_ERRORS = (OSError, EOFError, RuntimeError, ValueError, MemoryError, struct.error, wave.Error)
"""What wave raises for damaged files."""
_EXPECTED = "a complete WAV file of integer samples (PCM)"

_WIDTHS = (1, 2, 3, 4)
"""Bytes of a sample."""


class Sound(View):
    """WAV files of integer samples as images `[1, samples, channels]`, in [-1, 1).

    A layer shows a window of them: its columns are samples.
    """

    type: Literal["sound"] = "sound"
    files: Files
    """A file, a folder, a pattern such as `speech/*.wav`, a `.txt` file that lists one of these per line, or
    an array of these. The files of a folder or pattern are sorted by name, `frame_2` before `frame_10`."""

    def paths(self) -> Sequence[str]:
        """Return the files; raises InputError if there are none."""
        return find_files(self.files, (".wav",), "WAV files")

    def gallery(self) -> Gallery:
        """Return the recordings, with the headers read."""
        return _recordings(self.paths())


@shared
def _recordings(paths: Sequence[str]) -> Gallery:
    """Return the gallery of WAV files; those that cannot be used are its `bad` ones."""

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        return _samples(paths[number], columns.start, columns.stop)[None]

    found = over_files(errors_of(_shape), paths, f"reading the headers of {len(paths):,} WAV files")
    bad = {number: error for number, error in enumerate(found) if isinstance(error, InputError)}
    shapes = [NOTHING if isinstance(shape, InputError) else shape for shape in found]
    return Gallery(shapes, read, paths.__getitem__, bad=bad)


def _shape(path: str) -> tuple[int, int, int]:
    try:
        with open_regular(path) as opened, wave.open(opened) as file:
            samples, channels, width = file.getnframes(), file.getnchannels(), file.getsampwidth()
            if samples:
                file.setpos(samples - 1)
                whole = len(file.readframes(1)) == channels * width
    except _ERRORS as error:
        raise unreadable(path, error, _EXPECTED) from error
    _check_width(path, width)
    if not samples:
        raise InputError(f"{path}: there are no samples in this file\n    expected: at least one")
    if not whole:
        raise InputError(
            f"{path}: this file is truncated\n    expected: {samples:,} samples, as its header says"
        )
    return 1, samples, channels


def _samples(path: str, first: int, end: int) -> np.ndarray:
    """Return samples first .. end - 1, float32 `[samples, channels]`."""
    try:
        with open_regular(path) as opened, wave.open(opened) as file:
            file.setpos(first)
            raw, width, channels = file.readframes(end - first), file.getsampwidth(), file.getnchannels()
    except _ERRORS as error:
        raise unreadable(path, error, _EXPECTED) from error
    _check_width(path, width)
    if len(raw) != (end - first) * width * channels:
        raise InputError(f"{path}: this file is truncated\n    expected: samples {first:,} to {end - 1:,}")
    if width == 1:  # the only unsigned one
        values = np.frombuffer(raw, np.uint8).astype(np.int32) - 128
    elif width == 3:
        padded = np.zeros((len(raw) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(raw, np.uint8).reshape(-1, 3)
        values = padded.view("<i4")[:, 0] >> 8
    else:
        values = np.frombuffer(raw, f"<i{width}")
    return (values / float(1 << (8 * width - 1))).astype(np.float32).reshape(-1, channels)


def _check_width(path: str, width: int) -> None:
    if width not in _WIDTHS:
        raise InputError(
            f"{path}: samples of this size cannot be read\n    found:    {8 * width} bits\n"
            "    expected: 8, 16, 24 or 32 bits"
        )
