"""Sums between GPUs: the same bits as on the CPU, by NCCL and by MPI, and the choice between them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from petabatch.engine.engine import Engine
from petabatch.engine.gpu.device import Gpu
from petabatch.errors import NonFiniteError
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel import gpu_sums
from petabatch.parallel.comm import Serial, share
from petabatch.parallel.gpu_sums import SideStreamSum
from petabatch.parallel.reduce import ExactSum
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import MISSING, network, window
from support.networks import collect
from support.rank_threads import Nccl, Thread, on_threads
from support.strict_arrays import far
from support.weight_changes import changes, exact_sum

SLICES = 7
emulated = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)


def gpus(library: Nccl | None, shared: bool = False) -> Callable[[Thread], EmulatedGpu]:
    """Return a function that gives each rank its GPU."""

    def of(comm: Thread) -> EmulatedGpu:
        uuid = "the one" if shared else f"number {comm.rank}"
        return EmulatedGpu(uuid=uuid, library=None if library is None else lambda: library)

    return of


def given(comm: Thread, seed: int, dtype: str) -> tuple[dict[str, Any], int]:
    """Return this rank's changes of two connections, on its GPU, and its first slice."""
    lo, hi = share(SLICES, comm.rank, comm.size)
    both = {"d": changes(SLICES, seed, 20, dtype), "e": changes(SLICES, seed + 1, 3, dtype, features=5)}
    return {name: far.asarray(values[lo:hi]) for name, values in both.items()}, lo


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("size", "library"), [(2, Nccl()), (3, Nccl()), (3, None)])
def test_sums_between_gpus_have_the_bits_of_the_cpu(
    size: int, library: Nccl | None, dtype: str, late: bool
) -> None:
    def work(comm: Thread) -> dict[str, np.ndarray]:
        device = gpus(library)(comm)
        device.enter()
        parts, first = given(comm, 3, dtype)
        sums = gpu_sums.between(device, comm, True)
        if not late:
            return ExactSum(parts, sums, SLICES, first).wait()
        pending = SideStreamSum(device, parts, sums, SLICES, first)
        for _ in range(comm.rank):  # ranks poll a different number of times
            pending.test()
        return pending.wait()

    both = [changes(SLICES, 3, 20, dtype), changes(SLICES, 4, 3, dtype, features=5)]
    expected = [exact_sum(values).tobytes() for values in both]
    for found in on_threads(size, work):
        assert all(type(one) is np.ndarray for one in found.values())
        assert [one.tobytes() for one in found.values()] == expected
    if library is not None:
        kinds = {(library.NCCL_INT32, library.NCCL_MAX), (library.NCCL_INT64, library.NCCL_SUM)}
        assert set(library.messages) == kinds


@pytest.mark.parametrize("library", [Nccl(), None])
def test_all_ranks_hear_of_the_first_slice_that_is_not_finite(library: Nccl | None) -> None:
    def work(comm: Thread) -> str:
        device = gpus(library)(comm)
        device.enter()
        parts, first = given(comm, 3, "f4")
        if comm.rank == 1:
            parts["e"][1, 0, 0, 2] = np.nan
        pending = ExactSum(parts, gpu_sums.between(device, comm, True), SLICES, first)
        with pytest.raises(NonFiniteError) as error:
            pending.wait()
        return str(error.value)

    assert on_threads(3, work) == ["e: not finite in slice 3"] * 3


@pytest.mark.parametrize(
    ("gpu_of", "here", "expected"),
    [
        (gpus(Nccl()), True, "sums between GPUs: NCCL 2.32.3"),
        (gpus(None), True, "MPI through pinned host memory, since rank 0 has no NCCL (it is not installed)"),
        (gpus(Nccl(), shared=True), True, "since 3 ranks share the one, and NCCL needs one GPU per rank"),
        (gpus(Nccl(fails=2)), True, "since NCCL failed to initialise on rank 2: NCCL_ERROR_SYSTEM_ERROR"),
        (gpus(Nccl()), False, "since the slices of rank 1 do not all fit on its GPU"),
    ],
)
def test_the_transport_of_sums_is_logged_with_its_reason(
    gpu_of: Any, here: bool, expected: str, caplog: pytest.LogCaptureFixture
) -> None:
    def work(comm: Thread) -> str:
        found = gpu_sums.between(gpu_of(comm), comm, here or comm.rank != 1)
        return type(found).__name__

    with caplog.at_level(logging.INFO, "petabatch"):
        found = on_threads(3, work)
    assert expected in caplog.text
    if "NCCL 2" in expected:
        assert found == ["Nccl"] * 3
    else:
        assert found == ["Staged", "Staged" if here else "Thread", "Staged"]


def test_ranks_with_different_versions_of_nccl_sum_through_the_hosts() -> None:
    libraries = [Nccl(22707), Nccl(23203)]
    assert (
        on_threads(2, lambda comm: type(gpu_sums.between(gpus(libraries[comm.rank])(comm), comm, True)))
        == [gpu_sums.Staged] * 2
    )


def test_one_rank_has_nobody_to_sum_with() -> None:
    alone = Serial()
    assert isinstance(gpu_sums.between(EmulatedGpu(), alone, True), Serial)


def test_info_shows_the_transport_of_sums() -> None:
    pytest.importorskip("cupy")
    assert "NCCL" in gpu_sums.route()


@pytest.mark.gpu
@pytest.mark.skipif(MISSING is not None, reason=f"no GPU here: {MISSING}")
def test_a_real_nccl_of_one_rank_leaves_the_sums_as_they_are() -> None:
    try:
        library = gpu_sums.nccl()
    except ImportError as error:
        pytest.skip(f"no NCCL here: {error}")
    device = Gpu(0)
    device.enter()
    group = library.NcclCommunicator(1, library.get_unique_id(), 0)
    sums = gpu_sums.Nccl(device, Serial(), library, group)
    values = changes(SLICES, 3, 20)
    for late in (False, True):
        parts = {"d": device.xp.asarray(values)}
        made = SideStreamSum(device, parts, sums, SLICES, 0) if late else ExactSum(parts, sums, SLICES, 0)
        assert made.wait()["d"].tobytes() == exact_sum(values).tobytes()


@pytest.mark.sampled(2)
@emulated
@pytest.mark.parametrize("reduce", ["exact", "overlapped"])
@pytest.mark.parametrize("library", [Nccl(), None])
def test_a_run_on_several_gpus_has_the_bits_of_one(library: Nccl | None, reduce: str) -> None:
    wanted = network(device="gpu", reduce=reduce)

    def work(comm: Any, device: EmulatedGpu | None = None) -> tuple[dict[str, np.ndarray], bytes]:
        device = device or gpus(library)(comm)
        device.enter()
        engine = Engine(schedule(build(wanted)), comm, 1, device)
        engine.start()
        found = collect(engine)
        engine.collect()
        return found, engine.state.saved()["connections/dictionary/weights"].tobytes()

    alone, weights = work(Serial(), EmulatedGpu())
    several = on_threads(2, work)
    assert [theirs for _, theirs in several] == [weights] * 2
    together = np.concatenate([found["layers/V1/A"] for found, _ in several], axis=1)
    assert together.tobytes() == alone["layers/V1/A"].tobytes()
    # one of them has memory for only two of its slices, so its weight changes are on the host
    mixed = on_threads(2, lambda comm: work(comm, window(2, wanted) if comm.rank == 1 else None))
    assert [theirs for _, theirs in mixed] == [weights] * 2
