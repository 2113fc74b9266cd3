"""PNG files of arrays, without an imaging library."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np


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
