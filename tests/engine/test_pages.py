"""Memory that arrays share: each has bytes of its own, all zero, and a block goes with its last array."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from petabatch.engine.pages import Pages

KIB = 1 << 10


def test_arrays_of_a_block_share_no_byte() -> None:
    pages = Pages()
    shapes = [((200, 200), "float32"), ((150 * KIB,), "uint8"), ((18, 1001), "float64"), ((3,), "int64")]
    arrays = [pages.zeros(*shapes[n % len(shapes)]) for n in range(120)]  # more than one block
    for number, array in enumerate(arrays):
        assert array.ctypes.data % 64 == 0 or array.nbytes < 128 * KIB
        assert (array.shape, array.dtype) == shapes[number % len(shapes)]
        assert array.flags.c_contiguous
        assert not array.any()
        array.fill(number)
    assert all((array == number).all() for number, array in enumerate(arrays))
    assert len({id(array.base) for array in arrays if array.base is not None}) > 1


def test_a_block_is_freed_with_its_last_array() -> None:
    pages = Pages()
    first, second = pages.zeros((150 * KIB,), "uint8"), pages.zeros((150 * KIB,), "uint8")
    block = first.base
    assert isinstance(block, np.ndarray)
    assert block is second.base
    noted = weakref.ref(block)
    del pages, first, block
    gc.collect()
    assert noted() is not None
    del second
    gc.collect()
    assert noted() is None
