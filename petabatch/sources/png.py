"""Headers of PNG files read without pillow, which takes some ten times as long."""

from __future__ import annotations

import os
import struct
import zlib

from petabatch.sources.pixels import MOST_PIXELS

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_SIZE = struct.Struct(">2I5B")
_CHANNELS = {(8, 0): 1, (16, 0): 1, (8, 4): 1, (8, 2): 3, (16, 2): 3, (8, 3): 3, (8, 6): 3, (16, 6): 3}
"""Channels that are shown, by bits and type of colour; those of others depend on pillow."""
_PLAIN = {b"IHDR", b"PLTE", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"sBIT", b"bKGD", b"pHYs", b"tIME"}
"""Chunks in which only the checksum can be wrong."""


def png_shape(head: bytes, most: int = MOST_PIXELS) -> tuple[int, int, int] | None:
    """Return the shape that the first bytes of a file tell; None if pillow has to be asked.

    As by pillow, the checksums of all chunks before the pixels are verified. Of more than `most` pixels
    pillow says why they are refused.
    """
    if head[:8] != _SIGNATURE or head[12:16] != b"IHDR" or len(head) < 33:
        return None
    columns, rows, bits, colour, *methods = _SIZE.unpack_from(head, 16)
    channels = _CHANNELS.get((bits, colour))
    if channels is None or not 0 < rows * columns <= most or methods not in ([0, 0, 0], [0, 0, 1]):
        return None
    at = len(_SIGNATURE)
    while (kind := head[at + 4 : at + 8]) != b"IDAT":
        end = at + 8 + int.from_bytes(head[at : at + 4], "big")
        if kind not in _PLAIN or zlib.crc32(head[at + 4 : end]) != int.from_bytes(head[end : end + 4], "big"):
            return None
        at = end + 4
    return rows, columns, channels


def has_chunk(file: int, kind: bytes) -> bool:
    """Return whether an open PNG file has a chunk of a kind, before or behind its pixels."""
    at = len(_SIGNATURE)
    while len(head := os.pread(file, 8, at)) == 8 and head[4:] != b"IEND":
        if head[4:] == kind:
            return True
        at += 12 + int.from_bytes(head[:4], "big")
    return False
