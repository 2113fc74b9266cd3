"""Collective operations in the alpha-beta model: messages one after the other, and the bytes in them.

Every rank has one link and sends and receives at the same time. For n bytes on p ranks (Thakur, Rabenseifner
and Gropp 2005, "Optimization of collective communication operations in MPICH"; the ring: Patarasuk and Yuan
2009, "Bandwidth optimal all-reduce algorithms for clusters of workstations"):

    algorithm           messages     bytes each way     fewest
    ring                2 (p - 1)    2 n (p - 1) / p    bytes; for many ranks many messages
    recursive doubling  log2 p       n log2 p           messages
    halving, doubling   2 log2 p     2 n (p - 1) / p    bytes, with few messages

Recursive doubling and halving are the trees: a rank exchanges with those at distance 1, 2, 4 and so on. If p
is no power of two, the ranks beyond it hand their numbers over first, and get the result at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.bench.prediction.link import Link

_SHORT = 2048
"""Bytes up to which MPICH sums by recursive doubling (MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE)."""


@dataclass(frozen=True)
class Collective:
    """The cost of an operation: that of its longest chain of messages."""

    messages: int = 0
    """Messages one after the other."""
    path: float = 0.0
    """Bytes in them."""
    sent: float = 0.0
    """Bytes that the rank with most sends over its link."""
    added: float = 0.0
    """Bytes of numbers that a rank adds to its own."""

    def seconds(self, link: Link, addition: float = 0.0) -> float:
        """Return its time over a link, with `addition` seconds for each byte that is added."""
        return self.messages * link.latency + self.path / link.bandwidth + self.added * addition


def ring(nbytes: int, ranks: int) -> Collective:
    """Return an all-reduce around a ring: parts of the sum go around once, and the sum once more."""
    part = nbytes / ranks
    both = 2 * (ranks - 1) * part
    return Collective(2 * (ranks - 1), both, both, (ranks - 1) * part)


def recursive_doubling(nbytes: int, ranks: int) -> Collective:
    """Return an all-reduce in which pairs exchange all numbers."""
    rounds, beyond = _rounds(ranks)
    return Collective(
        rounds + 2 * beyond, (rounds + 2 * beyond) * nbytes, (rounds + beyond) * nbytes,
        (rounds + beyond) * nbytes,
    )  # fmt: skip


def halving_doubling(nbytes: int, ranks: int) -> Collective:
    """Return an all-reduce in which pairs exchange halves, quarters, ..., and gather the sums in return."""
    rounds, beyond = _rounds(ranks)
    part = nbytes * (1 - 0.5**rounds)
    return Collective(
        2 * (rounds + beyond), 2 * (part + beyond * nbytes), 2 * part + beyond * nbytes,
        part + beyond * nbytes,
    )  # fmt: skip


def tree(nbytes: int, ranks: int, size: int = 8) -> Collective:
    """Return the all-reduce that MPICH selects, for numbers of `size` bytes."""
    few = nbytes // size < 2 ** _rounds(ranks)[0]
    return (recursive_doubling if nbytes <= _SHORT or few else halving_doubling)(nbytes, ranks)


def exchange(nbytes: int, ranks: int) -> Collective:
    """Return messages of `nbytes` from each rank to each other one, all at once."""
    sent = float((ranks - 1) * nbytes)
    return Collective(int(ranks > 1), sent, sent)


def gather(nbytes: int, ranks: int) -> Collective:
    """Return a gathering of `nbytes` from each rank on one of them, along a tree."""
    rounds = (ranks - 1).bit_length()
    return Collective(rounds, float((ranks - 1) * nbytes), float(nbytes))


def _rounds(ranks: int) -> tuple[int, bool]:
    """Return log2 of the largest power of two that is not beyond `ranks`, and whether some are beyond it."""
    rounds = ranks.bit_length() - 1
    return rounds, ranks > 2**rounds
