"""Assignment of GPUs to ranks."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from petabatch.engine.gpu import detect
from petabatch.engine.gpu.device import Gpu
from petabatch.errors import ResourceError
from petabatch.kernels.cuda.device import Device
from petabatch.logs import log
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Network


def choose(network: Network, comm: Comm) -> Device | None:
    """Return the GPU of this rank, by its number among the ranks of its host; None for `device = "cpu"`.

    Collective. Prints which rank has which, warns where ranks share one, and says how many GPUs idle. Raises
    ResourceError when there is none.
    """
    if network.run.device == "cpu":
        return None
    require()
    count = detect.count()
    gpu = Gpu(comm.local_rank % count, network.run.tf32)
    announce(comm, gpu.name, gpu.uuid, count, network.batch)
    return gpu


def require(wanted: int = 1) -> None:
    """Raise ResourceError unless this number of GPUs is available."""
    reason = detect.missing()
    if reason is not None:
        raise ResourceError(
            'run.device = "gpu", but no GPU was found\n'
            f"    found:    {reason}\n"
            f"    expected: an NVIDIA GPU of compute capability {detect.OLDEST} or more, "
            "its driver, and CuPy 14\n"
            '    hint:     --device cpu (or run.device = "cpu"); petabatch info --devices shows what is found'
        )
    if (found := detect.count()) < wanted:
        raise ResourceError(
            f"--gpus {wanted}: this machine has fewer GPUs\n"
            f"    found:    {_counted(found, 'GPU')}\n"
            "    hint:     --gpus all; petabatch info --devices lists them"
        )


def announce(comm: Comm, name: str, uuid: str, count: int, slices: int) -> None:
    """Log on rank 0 the ranks, GPUs and hosts, which GPUs ranks share, and how many idle; collective.

    `count` is the number of GPUs of this host, `slices` that of all slices, which is the most ranks.
    """
    found: Sequence[tuple[str, str, int]] = comm.gather((name, uuid, count)) or ()
    if not found:
        return
    hosts = dict(zip(comm.hosts, (each for _, _, each in found), strict=True))
    sharing = Counter(number for _, number, _ in found)
    log.info(
        "%s on %s of %s",
        _counted(len(found), "rank"),
        _counted(len(sharing), "GPU"),
        _counted(len(hosts), "host"),
    )
    for rank, (its, number, _) in enumerate(found):
        log.info("rank %d on %s: %s (%s)", rank, comm.hosts[rank], its, number)
    for number, ranks in sharing.items():
        if ranks > 1:
            log.warning("%d ranks share %s: one rank for each GPU is faster", ranks, number)
    idle = sum(hosts.values()) - len(sharing)
    if idle > 0 and slices > len(found) and _takes_ranks():
        most = min(slices, sum(hosts.values()))
        log.info(
            "%s idle: %s would use %s",
            f"{_counted(idle, 'GPU')} of {sum(hosts.values())}",
            _command(most, len(hosts), most == sum(hosts.values())),
            "them" if most == sum(hosts.values()) else f"{most - len(sharing)} of them",
        )


def _takes_ranks() -> bool:
    """Return whether the program can be started on several ranks: not `petabatch bench`."""
    return not _is_ours() or sys.argv[1:2] in (["run"], ["resume"])


def _is_ours() -> bool:
    return Path(sys.argv[0]).name in ("petabatch", "__main__.py")


def _command(gpus: int, hosts: int, every: bool) -> str:
    """Return the command that uses this number of GPUs."""
    program, *given = sys.argv
    ours = _is_ours()
    if hosts > 1 or not ours:
        line = shlex.join(["petabatch", *given]) if ours else shlex.join(["python", program, *given])
        return f"`mpirun -n {gpus} {line}`"
    return f"`{shlex.join(['petabatch', *given])} --gpus {'all' if every else gpus}`"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
