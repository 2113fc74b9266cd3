"""Patches that a GPU cuts out and adds up, against plain array code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from petabatch.geometry import GeometryError, Patches, make_link
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cuda.patches import GpuKernels, patches_source
from petabatch.variable import Border
from support import nvrtc
from support.gpu_emulation import EmulatedGpu

NUMPY = ArrayKernels(np)


def device() -> EmulatedGpu:
    made = EmulatedGpu()
    made.checked = True
    made.enter()
    return made


@st.composite
def patches(draw: st.DrawFn) -> Patches:
    small = st.integers(1, 5)
    stride, coarse, size = (draw(st.tuples(small, small)) for _ in range(3))
    features, channels = draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 40]))
    pre, post = (*coarse, features), (coarse[0] * stride[0], coarse[1] * stride[1], channels)
    shared, outside = draw(st.booleans()), draw(st.booleans())
    try:
        return make_link(pre, post, size, shared, outside and shared).patches
    except GeometryError:
        assume(False)
        raise


def layers(p: Patches, dtype: str, steps: int) -> np.ndarray:
    """Return a layer as histories hold it: slices do not follow each other in memory."""
    shape = (2, steps, p.y.fine, p.x.fine, p.channels)
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)[:, -1]


@settings(deadline=None, max_examples=60)
@given(
    p=patches(),
    dtype=st.sampled_from(["f4", "f8"]),
    border=st.sampled_from(["zero", "mirror", 0.7, "image"]),
    steps=st.integers(1, 2),
)
def test_patches_are_cut_out_as_by_arrays(p: Patches, dtype: str, border: Border, steps: int) -> None:
    gpu, fine = device(), layers(p, dtype, steps)
    xp = gpu.xp
    if border == "image":  # an array that holds the layer in its middle
        rows, columns = (2 * max(axis.before, axis.after) + 2 for axis in (p.y, p.x))
        whole = np.random.default_rng(2).standard_normal((2, p.y.fine + rows, p.x.fine + columns, p.channels))
        border = whole.astype(dtype)
        fine = border[:, rows // 2 : rows // 2 + p.y.fine, columns // 2 : columns // 2 + p.x.fine]
    there = xp.asarray(border) if isinstance(border, np.ndarray) else border
    found = GpuKernels.of(gpu).windows(_far(gpu, fine), p, there)
    expected = NUMPY.windows(fine, p, border)
    assert found.dtype == expected.dtype
    assert np.array_equal(np.asarray(found), expected)


@settings(deadline=None, max_examples=60)
@given(p=patches(), dtype=st.sampled_from(["f4", "f8"]))
def test_patches_are_added_up_as_by_arrays(p: Patches, dtype: str) -> None:
    gpu = device()
    shape = (2, p.y.units, p.x.units, p.y.size, p.x.size, p.channels)
    columns = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    found = GpuKernels.of(gpu).overlap(gpu.xp.asarray(columns), p)
    expected = NUMPY.overlap(columns, p)
    assert found.shape == expected.shape
    tolerance = {"f4": 1e-5, "f8": 1e-13}[dtype]
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


def _far(gpu: EmulatedGpu, array: np.ndarray) -> np.ndarray:
    """Return an array on the device with the strides of this one."""
    if array.flags.c_contiguous:
        return gpu.xp.asarray(array)  # type: ignore[no-any-return]
    base = gpu.xp.empty((len(array), 2, *array.shape[1:]), array.dtype)
    base[:, 1] = gpu.xp.asarray(array)
    return base[:, 1]  # type: ignore[no-any-return]


@pytest.mark.long
@pytest.mark.skipif(nvrtc.loaded() is None, reason=nvrtc.NO_NVRTC)
@pytest.mark.parametrize("real", ["float", "double"])
def test_kernels_compile_for_gpus(real: str) -> None:
    used = nvrtc.compiled(patches_source(real), 90)
    assert set(used) == {"unfold", "fold"}
    for use in used.values():
        assert use.spilled == 0
        assert use.registers <= 64
