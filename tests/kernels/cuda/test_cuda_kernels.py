"""The CUDA kernels: run on the host against the plain operators, and compiled for GPUs by NVRTC."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from petabatch.errors import ResourceError
from petabatch.geometry import Patches
from petabatch.kernels.cuda import source
from petabatch.kernels.cuda.cell import cell_constants
from petabatch.kernels.cuda.device import Limits
from petabatch.kernels.cuda.loop import LoopKernels
from petabatch.kernels.cuda.source import CudaKernel
from petabatch.kernels.rules import ACCELERATED, HEAVY_BALL, LEAKY
from petabatch.kernels.transfer import Curve
from support import nvrtc
from support.cuda_problem import Problem, cell, emulated, few, relative, small
from support.gpu_emulation import EmulatedGpu
from support.loops import NUMPY, TRANSFERS, assert_same_bits, geometries, plain

H200 = Limits(132, 228 * 1024, 227 * 1024)
A100 = Limits(108, 164 * 1024, 163 * 1024)
SMALL = Limits(84, 100 * 1024, 99 * 1024, threads=1536)
KERNELS = {"step": 4, "accelerated": 3, "display": 1, "gradient": 1}
tutorial = plain(16, 16, 128, 8, 2, 3)
large = plain(64, 64, 512, 16, 4, 3)


@emulated
@pytest.mark.parametrize("kernel", ["display", "step"])
@few
@given(
    p=geometries(70),
    curve=st.sampled_from(TRANSFERS),
    self_interaction=st.booleans(),
    per_slice=st.booleans(),
)
def test_steps_agree_with_the_plain_operators_in_float64(
    kernel: CudaKernel, p: Patches, curve: Curve, self_interaction: bool, per_slice: bool
) -> None:
    case = Problem(p, curve, self_interaction, per_slice=per_slice)
    found, (expected, close) = case.run(kernel, [3, 1]), case.reference(4)
    assume(curve.shift == curve.threshold or not close)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)


@emulated
@pytest.mark.parametrize("kernel", ["display", "step"])
def test_four_hundred_steps_agree_with_float64(kernel: CudaKernel) -> None:
    case = Problem(small, Curve.of("soft", 0.4), lanes=1, decay=math.exp(-1 / 30))
    for mine, theirs in zip(case.run(kernel, [400]), case.reference(400)[0], strict=True):
        assert relative(mine, theirs) < 1e-5


@emulated
@pytest.mark.parametrize("kernel", ["display", "step"])
def test_the_tutorials_network_agrees_with_float64(kernel: CudaKernel) -> None:
    case = Problem(tutorial, Curve.of("soft", 1.5), lanes=1)
    for mine, theirs in zip(case.run(kernel, [2]), case.reference(2)[0], strict=True):
        assert relative(mine, theirs) < 1e-6


@emulated
@pytest.mark.parametrize("kernel", ["display", "step"])
def test_cutting_a_run_and_running_it_again_change_no_bit(kernel: CudaKernel) -> None:
    case = Problem(small, TRANSFERS[1])
    whole = case.run(kernel, [6])
    for parts in ([6], [2, 4], [2, 2, 2]):
        assert_same_bits(case.run(kernel, parts), whole)


@emulated
@few
@example(p=plain(9, 9, 20, 4, 2, 1), density=1.0, counted=True)
@given(p=geometries(70), density=st.sampled_from([0.0, 0.1, 1.0]), counted=st.booleans())
def test_gradient_and_counts_agree_with_the_plain_operators(
    p: Patches, density: float, counted: bool
) -> None:
    case, rng = Problem(p, TRANSFERS[0]), np.random.default_rng(3)
    A = case.guarded(rng.standard_normal(case.state[3].shape) * (rng.random(case.state[3].shape) < density))
    product = case.guarded(np.full((2, p.features, p.length), np.nan))
    counts = case.guarded(np.full((2, p.features, p.length // p.channels), np.nan))
    case.gradient()(A, case.image, product, counts if counted else None)
    expected = NUMPY.outer(A.astype("f8"), case.image.astype("f8"), p)[:, 0]
    np.testing.assert_allclose(product, expected, rtol=2e-5, atol=2e-5)
    if counted:
        tallied = NUMPY.outer((A != 0).astype("f8"), np.ones_like(case.image, "f8"), p)[:, 0]
        np.testing.assert_array_equal(np.repeat(counts, p.channels, -1), tallied)
    assert case.guards.untouched()


@emulated
def test_the_display_kernel_sums_each_step_and_that_changes_no_bit() -> None:
    case = Problem(small, TRANSFERS[1])
    kernels, seen = case.kernels("display"), [case.guarded(array) for array in case.state]
    sums = kernels.sums(5)
    case.advance(kernels, seen, 5, sums)
    assert_same_bits(seen, case.run("display", [5]))
    for step in range(5):
        _, error, _, A = case.run("display", [step + 1])
        each = [np.square(error, dtype=float), abs(A).astype(float), A != 0]
        expected = np.stack([array.reshape(2, -1).sum(axis=1) for array in each], axis=1)
        np.testing.assert_allclose(sums[step], expected, rtol=1e-6)
        np.testing.assert_array_equal(sums[step, :, 2], expected[:, 2])


@emulated
@pytest.mark.parametrize("kernel", ["display", "step"])
def test_a_nan_in_an_image_stays_in_its_slice(kernel: CudaKernel) -> None:
    case = Problem(small, TRANSFERS[0])
    case.image[0, 3, 3] = np.nan
    V = case.run(kernel, [2])[2]
    assert np.isnan(V[0]).any()
    assert np.isfinite(V[1]).all()


@emulated
def test_a_stretch_of_steps_is_captured_once_and_replayed() -> None:
    case = Problem(small, TRANSFERS[0])
    kernels = case.kernels("step")
    for _ in range(4):
        case.advance(kernels, case.state, 2)
    assert kernels.device.captured == 1


def test_a_slice_that_does_not_fit_on_a_multiprocessor_gets_the_kernels_of_a_step() -> None:
    assert source.display(tutorial, H200) is not None
    assert source.display(tutorial, SMALL) is None
    assert source.display(large, H200) is None
    assert source.step(large) is not None
    with pytest.raises(ResourceError, match="does not fit"):
        LoopKernels(EmulatedGpu(), large, cell(LEAKY, 1, 0, Curve.of("soft", 0.1)), 1, 1, "display")


def test_no_two_patches_of_a_phase_overlap_and_every_position_has_one_phase() -> None:
    for p in (tutorial, small, plain(7, 5, 9, 5, 1, 2)):
        whole = source.display(p, H200)
        assert whole is not None
        order = whole.order
        assert sorted(order[order >= 0]) == list(range(p.positions))
        for phase in order:
            covered = np.zeros((p.y.padded, p.x.padded), int)
            for position in phase[phase >= 0]:
                y, x = (position // p.x.coarse) * p.y.stride, (position % p.x.coarse) * p.x.stride
                covered[y + p.y.offset :, x + p.x.offset :][: p.y.size, : p.x.size] += 1
            assert covered.max() <= 1


GPUS = {
    80: A100,
    90: H200,
    100: H200,  # B200
    120: Limits(170, 100 * 1024, 99 * 1024, threads=1536),  # RTX 5090
}
"""Multiprocessors by compute capability."""
SPILLED = {("display", 80): 112}
"""Bytes of a thread that may go to memory, where they are more than a few pointers outside of the loops."""


@pytest.mark.long
@pytest.mark.skipif(nvrtc.loaded() is None, reason=nvrtc.NO_NVRTC)
@pytest.mark.parametrize("architecture", GPUS)
@pytest.mark.parametrize(
    ("p", "rule"),
    [(tutorial, LEAKY), (tutorial, HEAVY_BALL), (large, LEAKY), (large, ACCELERATED)],
    ids=["tutorial", "tutorial heavy-ball", "large", "large fista"],
)
def test_kernels_compile_for_gpus_and_fit_on_their_multiprocessors(
    p: Patches, rule: int, architecture: int
) -> None:
    if architecture not in nvrtc.architectures():
        pytest.skip(f"NVRTC does not know compute capability {architecture}")
    limits = GPUS[architecture]
    units = cell_constants(cell(rule, 1, 0.9, Curve.of("soft", 0.3)), 1.0)
    display = source.display(p, limits)
    # Of each source: its constants, the threads of a block, and the most shared memory of a kernel.
    jobs = {}
    jobs["step"] = source.geometry(p), source.THREADS, 0
    if rule == ACCELERATED:
        jobs["accelerated"] = {**source.geometry(p), "BLOCKS": 64}, 256, 8 * 4 * 8
    if display is not None:
        jobs["display"] = display.constants, display.threads, display.shared
        jobs["gradient"] = source.geometry(p), 512, 4 * 32 * 17
    for name, (constants, threads, shared) in jobs.items():
        used = nvrtc.compiled(source.compose(name, {**constants, **units}), architecture)
        assert len(used) == KERNELS[name]
        resident = int(constants.get("RESIDENT", 1))
        assert shared <= limits.shared_block
        assert resident * (shared + limits.reserved) <= limits.shared
        assert resident * threads <= limits.threads
        for kernel, use in used.items():
            assert resident * threads * use.registers <= limits.registers, kernel
            assert use.spilled <= SPILLED.get((kernel, architecture), 32), kernel
