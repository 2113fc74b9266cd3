"""Assignment of GPUs to ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from petabatch.engine.gpu.detect import missing
from petabatch.engine.gpu.device import Gpu
from petabatch.errors import ResourceError
from petabatch.logs import log
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Run


def choose(run: Run, comm: Comm) -> Gpu | None:
    """Return the GPU of this rank, by its number among the ranks of its host; None for `device = "cpu"`.

    Collective. Prints which rank has which, and warns where ranks share one. Raises ResourceError when there
    is none, or displays end early.
    """
    if run.device == "cpu":
        return None
    require()
    if run.until is not None:  # a params file cannot say so; `resume --device gpu` can
        raise ResourceError(
            "early stopping (run.until) is not available on a GPU, which advances all slices together\n"
            "    hint:     --device cpu"
        )
    import cupy

    gpu = Gpu(comm.local_rank % cupy.cuda.runtime.getDeviceCount(), run.tf32)
    announce(comm, gpu.name, gpu.uuid)
    return gpu


def require() -> None:
    """Raise ResourceError if there is no GPU that can be used."""
    reason = missing()
    if reason is not None:
        raise ResourceError(
            'run.device = "gpu", but no GPU was found\n'
            f"    found:    {reason}\n"
            "    expected: an NVIDIA GPU of compute capability 8.0 or more, its driver, and CuPy 14\n"
            '    hint:     --device cpu (or run.device = "cpu"); petabatch info --devices shows what is found'
        )


def announce(comm: Comm, name: str, uuid: str) -> None:
    """Log on rank 0 which rank has which GPU, and warn of each GPU that ranks share; collective."""
    both: Sequence[tuple[str, str]] = comm.gather((name, uuid)) or ()
    for rank, (its, number) in enumerate(both):
        log.info("rank %d on %s: %s (%s)", rank, comm.hosts[rank], its, number)
    for number, ranks in Counter(number for _, number in both).items():
        if ranks > 1:
            log.warning("%d ranks share %s: one rank for each GPU is faster", ranks, number)
