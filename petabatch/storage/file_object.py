"""A file object for HDF5 whose writes never fail.

HDF5 cannot close a file after a failed write, and crashes the process at exit. It is therefore given an
object that accepts every write: once the real file cannot be written, the error is kept for the caller, and
small blocks (HDF5's own metadata, which it may read back) are held in memory until the file is closed.
"""

from __future__ import annotations

import os

_METADATA = 1 << 20
"""Bytes of the largest block kept after a failure; larger ones are array data and are not read back."""


class FileObject:
    """A readable, writable and seekable file over the descriptor `descriptor`."""

    def __init__(self, descriptor: int) -> None:
        self.error: BaseException | None = None
        """The exception of the first failed write."""
        self.size = 0
        """Length in bytes, including writes that failed."""
        self._descriptor = descriptor
        self._at = 0
        self._lost: list[tuple[int, bytes]] = []

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to `offset` from the start, the current position or the end; return the new position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        """Return the current position."""
        return self._at

    def write(self, block: memoryview) -> int:
        """Write a whole block at the current position; keep the error if that fails."""
        length = len(block)
        if self.error is None:
            try:
                done = 0
                while done < length:
                    done += os.pwrite(self._descriptor, block[done:], self._at + done)
            except (
                BaseException
            ) as error:  # including KeyboardInterrupt, which must not reach HDF5 in the middle of a write
                self.error = error
        if self.error is not None and length <= _METADATA:
            self._lost.append((self._at, bytes(block)))
        self._at += length
        self.size = max(self.size, self._at)
        return length

    def readinto(self, block: memoryview) -> int:
        """Fill `block` from the current position; zeros where nothing was written."""
        length = len(block)
        try:
            done = os.preadv(self._descriptor, [block], self._at)
        except OSError as error:
            self.error, done = self.error or error, 0
        block[done:] = bytes(length - done)
        for start, lost in self._lost:
            low, high = max(start, self._at), min(start + len(lost), self._at + length)
            if low < high:
                block[low - self._at : high - self._at] = lost[low - start : high - start]
        self._at += length
        return length

    def truncate(self, size: int) -> int:
        """Set the length of the file."""
        self.size = size
        if self.error is None:
            try:
                os.ftruncate(self._descriptor, size)
            except OSError as error:
                self.error = error
        return size

    def flush(self) -> None:
        """Do nothing, since nothing is buffered."""
