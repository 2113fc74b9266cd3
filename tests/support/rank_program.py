"""What the ranks of test_comm.py do; the first argument names it."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

from petabatch.errors import ResourceError
from petabatch.parallel.comm import COMMUNICATION, FOR_RANKS, Comm, share
from petabatch.parallel.consistency import assert_identical
from petabatch.parallel.grid import grid
from petabatch.parallel.launch import connect
from petabatch.parallel.reduce import ExactSum

SLICES = 7


def my_changes(comm: Comm) -> tuple[dict[str, np.ndarray], int]:
    """Return this rank's part of weight changes of two connections, and its first slice."""
    rng = np.random.default_rng(1)
    everything = {
        "connection d": rng.normal(size=(SLICES, 1, 1, 8, 5, 5, 3)).astype("f4"),
        "connection e": rng.normal(size=(SLICES, 1, 1, 3, 4, 4, 2)) * 1e-6,
    }
    lo, hi = share(SLICES, comm.rank, comm.size)
    return {name: values[lo:hi] for name, values in everything.items()}, lo


def digest(sums: dict[str, np.ndarray]) -> str:
    return hashlib.sha256(b"".join(one.tobytes() for one in sums.values())).hexdigest()


def sums(comm: Comm) -> None:
    """Print a hash of the exact sums, once blocking and once overlapped with other messages."""
    parts, first = my_changes(comm)
    blocking = ExactSum(parts, comm, SLICES, first).wait()
    background = ExactSum(parts, comm, SLICES, first)
    # Ranks poll it at different places between collectives.
    for turn in range(comm.size):
        if turn == comm.rank:
            background.test()
        comm.barrier()
        comm.any(turn)
    overlapped = background.wait()
    assert_identical(comm, blocking | {f"{name}, overlapped": one for name, one in overlapped.items()})
    if comm.rank == 0:
        print(digest(blocking), digest(overlapped))


def polled(comm: Comm) -> None:
    """Finish an exact sum by polling alone."""
    parts, first = my_changes(comm)
    background = ExactSum(parts, comm, SLICES, first)
    end = time.monotonic() + 200
    while not background.test():
        assert time.monotonic() < end, "polling does not move the sum"
    if comm.rank == 0:
        print(digest(background.wait()))


def collectives(comm: Comm) -> None:
    """Check every other method on real ranks."""
    assert comm.broadcast(("from", comm.rank)) == ("from", 0)
    assert comm.gather(comm.rank) == (list(range(comm.size)) if comm.rank == 0 else None)
    assert comm.any(1 << comm.rank) == (1 << comm.size) - 1
    values = np.array([comm.rank, 1.5])
    comm.start_sum(values).wait()
    assert values.tolist() == [sum(range(comm.size)), 1.5 * comm.size]
    large_first = np.array([[2.0**53, 1.0, 1.0, -(2.0**53)][comm.rank], float(comm.rank)])
    assert comm.sum_in_order(large_first).tolist() == [0.0, 6.0]  # 2.0 in another order
    assert comm.local_rank == comm.rank
    assert len(comm.hosts) == comm.size
    pair = comm.split(comm.rank // 2)
    assert pair.gather(comm.rank) == ([0, 1, 2, 3][comm.rank : comm.rank + 2] if pair.rank == 0 else None)
    comm.barrier()
    assert comm.agree(3, 60)
    assert not comm.agree(comm.rank // 2, 60)
    if comm.rank > 0:
        assert not comm.agree(0, 0.1), "rank 0 has not come yet"
    comm.barrier()
    assert comm.rank > 0 or comm.agree(0, 60)
    if comm.rank == 0:
        print("all well")


def messages(comm: Comm) -> None:
    """Send numbers around in compiled code, while a rank comes late; then more than there is room for."""
    from petabatch.kernels.cpu.program.messages import deliver

    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    sent, received = np.zeros(5, np.float32), np.zeros((1, 5), np.float32)
    found = comm.messages({after: sent}, {before: received}, 3)
    other = comm.messages({before: sent[:2]}, {after: received[0, 3:]}, 4)
    for turn in range(3):
        sent[:] = 10 * comm.rank + turn
        if comm.rank == comm.size - 1 and turn == 2:
            time.sleep(0.5)
        waited = comm.waited[COMMUNICATION]
        deliver(found.table.ctypes.data)
        found.check()
        assert np.all(received == 10 * before + turn), received
        deliver(other.table.ctypes.data)
        assert np.all(received[0, 3:] == 10 * after + turn)
        assert comm.waited[COMMUNICATION] > waited
    assert comm.rank == comm.size - 1 or comm.waited[COMMUNICATION] - waited > 0.2
    assert not comm.waiting
    comm.barrier()
    room = np.zeros(3 if comm.rank == 0 else 5, np.float32)
    short = comm.messages({after: sent}, {before: room}, 5)
    deliver(short.table.ctypes.data)
    failed = ""
    try:
        short.check()
    except Exception as error:
        failed = str(error)
    assert ("truncated" in failed) == bool(failed) == (comm.rank == 0), failed
    if failed:
        deliver(short.table.ctypes.data)  # is not made any more
        print("all well")
    comm.barrier()


def threaded(comm: Comm) -> None:
    """Print whether threads may send at the same time, and the refusal of parts where they may not."""
    if comm.rank == 0:
        print(comm.threaded)
    try:
        grid(comm, None, comm.size, ["rows"])
    except ResourceError as error:
        if comm.rank == 0:
            print(error)


def flipped(comm: Comm) -> None:
    """Flip one bit of one connection's weights on rank 1."""
    weights = {name: np.ones((1, 3), np.float32) for name in ("connection d", "connection e")}
    assert_identical(comm, weights)
    if comm.rank == 1:
        weights["connection e"].view(np.uint32)[0, 2] ^= 1
    assert_identical(comm, weights)


def not_finite(comm: Comm) -> None:
    """Let a NaN appear in global slice 5."""
    parts, first = my_changes(comm)
    if first <= 5 < first + len(parts["connection d"]):
        parts["connection d"][5 - first, 0, 0, 2] = np.nan
    ExactSum(parts, comm, SLICES, first).wait()


def idle(comm: Comm) -> None:
    """Let rank 1 come a second late to a sum; print the processor time of rank 0, and how long it waited."""
    comm.barrier()
    if comm.rank == 1:
        time.sleep(1)
    begin, busy = time.monotonic(), time.process_time()
    comm.start_max(np.zeros(100, np.int32)).wait()
    if comm.rank == 0:
        print(time.process_time() - busy, time.monotonic() - begin)


def late(comm: Comm) -> None:
    """Let rank 1 come to some sums a while after rank 0, and print what that waited for."""
    for turn in range(4):
        waits = Path(f"{sys.argv[3]}{turn}")
        comm.barrier()
        before = dict(comm.waited)
        if comm.rank == 0:
            threading.Thread(target=announce, args=(comm, waits)).start()
        while comm.rank == 1 and not waits.exists():
            time.sleep(0.01)
        parts, first = my_changes(comm)
        ExactSum(parts, comm, SLICES, first).wait()
        if comm.rank == 0:
            print(*(comm.waited[name] - before[name] for name in (FOR_RANKS, COMMUNICATION)))


def announce(comm: Comm, waits: Path) -> None:
    """Make a file when this rank has waited for a while."""
    while not comm.waiting:
        time.sleep(0.001)
    time.sleep(0.3)
    waits.touch()


def raising(comm: Comm) -> None:
    """Raise on rank 1 while the others wait for it."""
    if comm.rank == 1:
        raise ValueError("the reader ran out of images")
    comm.barrier()


def killed(comm: Comm) -> None:
    """Kill rank 1 while the others wait for it, deaf to requests to stop as in a run."""
    signal.signal(signal.SIGTERM, lambda *_: None)
    if comm.rank == 1:
        print("killed: pid", os.getpid(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()


def silent(comm: Comm) -> None:
    """Return whether MPI was loaded."""
    print("ranks", comm.size, "mpi4py loaded:", "mpi4py" in sys.modules)


if __name__ == "__main__":
    wanted = {"mpi": True, "no-mpi": False}.get(sys.argv[2]) if len(sys.argv) > 2 else None
    globals()[sys.argv[1]](connect(wanted))
