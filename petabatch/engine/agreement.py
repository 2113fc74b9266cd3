"""Errors on which ranks that share slices agree: all of them have the one that any of them has.

A rank that stops a slice alone, or goes back alone, would leave the others waiting for its messages. They
meet after what may go wrong on some of them only: reading images, and looking whether numbers are finite.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np

from petabatch.engine.failure import OF_A_SLICE
from petabatch.errors import PetabatchError
from petabatch.parallel.comm import Comm


def agreed(errors: Sequence[PetabatchError | None], group: Comm, tag: int) -> Sequence[PetabatchError | None]:
    """Return for each of some slices the error of the earliest step, of the first rank with one.

    Collective for each `tag`.
    """
    if group.size == 1 or not errors:
        return errors
    told = [b"" if error is None else _packed(error) for error in errors]
    mine, everywhere = np.zeros((2, 2, group.size, len(errors)), np.int64)
    mine[:, group.rank] = [len(one) for one in told], [0 if error is None else error.step for error in errors]
    group.add_parts(mine, everywhere, tag)
    sizes, steps = everywhere
    if not sizes.any():
        return errors
    first = np.where(sizes > 0, steps, np.iinfo(np.int64).max).argmin(0)
    lengths = sizes[first, np.arange(len(errors))]
    own = [
        one if rank == group.rank else bytes(length)
        for one, rank, length in zip(told, first, lengths.tolist(), strict=True)
    ]
    sent = np.frombuffer(b"".join(own), np.uint8)
    group.add_parts(sent, received := np.empty_like(sent), tag)
    ends = np.cumsum(lengths)
    texts = [received[end - n : end].tobytes() for end, n in zip(ends, lengths, strict=True)]
    found = [
        error if rank == group.rank else _unpacked(text) if text else None
        for error, rank, text in zip(errors, first, texts, strict=True)
    ]
    for error in found:
        if error is not None:
            error.in_group = True
    return found


def agreeing(group: Comm, tag: int) -> AbstractContextManager[None]:
    """Raise an error of a slice at the end of the block on all ranks where one has raised one in it.

    Collective for each `tag`.
    """
    return nullcontext() if group.size == 1 else _agreeing(group, tag)


@contextmanager
def _agreeing(group: Comm, tag: int) -> Iterator[None]:
    mine: PetabatchError | None = None
    try:
        yield
    except OF_A_SLICE as error:
        mine = error
    (found,) = agreed([mine], group, tag)
    if found is not None:
        raise found


def _packed(error: PetabatchError) -> bytes:
    return pickle.dumps((type(error), error.args, vars(error)))


def _unpacked(text: bytes) -> PetabatchError:
    """Return an error as it was; those of some classes are not made from what they say."""
    kind, args, attributes = pickle.loads(text)
    error: PetabatchError = kind.__new__(kind)
    error.args = args
    vars(error).update(attributes)
    return error
