"""Pixels of images and patches: grey or colour, mosaics, PNG files and curves without an imaging library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np


def pictures(values: np.ndarray, grey: bool = False) -> np.ndarray:
    """Return images `[..., y, x, channel]` with values from 0 to 1 as grey or colour, `[..., y, x', 1 or 3]`.

    One channel is grey and three are red, green and blue. Stereo pairs and stacks of frames are drawn as
    tiles side by side, from the first to the last: in colour where the number of channels is a multiple of
    three, else grey. With `grey`, every channel is a tile.
    """
    channels = values.shape[-1]
    each = 3 if channels % 3 == 0 and not grey else 1
    parts = [values[..., first : first + each] for first in range(0, channels, each)]
    gap = np.ones((*values.shape[:-2], max(1, values.shape[-2] // 16), each))
    between = [part for tile in parts for part in (gap, tile)][1:]
    return np.asarray(np.clip(np.concatenate(between, axis=-2), 0, 1))


def about_zero(weights: np.ndarray) -> np.ndarray:
    """Return each patch `[..., y, x, channel]` scaled by its largest absolute value; zero is middle grey."""
    largest = np.abs(weights).max(axis=(-3, -2, -1), keepdims=True)
    return np.asarray(0.5 + 0.5 * weights / np.where(largest > 0, largest, 1))


def png(image: np.ndarray) -> bytes:
    """Return an image `[y, x, 1 or 3]` with values from 0 to 1 as a PNG file of 8 bits per channel."""
    pixels = np.round(255 * np.clip(image, 0, 1)).astype(np.uint8)
    height, width, channels = pixels.shape
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row begins with its filter, none
    rows[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 9)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def data_url(image: np.ndarray) -> str:
    """Return the image as an address that contains it."""
    return "data:image/png;base64," + base64.b64encode(png(image)).decode("ascii")


def atlas(tiles: np.ndarray, columns: int) -> np.ndarray:
    """Return tiles `[tile, y, x, channel]` as one image, in rows of `columns` without gaps."""
    count, height, width, channels = tiles.shape
    rows = -(-count // columns)
    full = np.ones((rows * columns, height, width, channels))
    full[:count] = tiles
    grid = full.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(rows * height, columns * width, channels)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def curve(values: np.ndarray, width: int = 360, height: int = 80) -> str:
    """Return a curve as SVG in the colour of the text around it, with its least and largest value."""
    shown = values[np.unique(np.linspace(0, len(values) - 1, min(len(values), width)).round().astype(int))]
    low, high = float(shown.min()), float(shown.max())
    x = np.linspace(2, width - 2, len(shown))
    y = height - 2 - (height - 4) * (shown - low) / (high - low if high > low else 1)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    line = f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/>'
    svg = f'<svg width="{width}" height="{height}" role="img" aria-label="curve">{line}</svg>'
    return f"<p>{svg}<br>{low:.4g} to {high:.4g}, last {float(values[-1]):.4g}</p>"
