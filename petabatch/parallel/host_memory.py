"""The memory that this process may use: of the machine, of its cgroup, and of its address space."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
"""Bytes from which cgroup v1 means that there is no limit."""


@dataclass(frozen=True)
class Limit:
    """A limit of the memory of a host's processes together, or of the address space of each."""

    nbytes: int
    what: str


def used() -> tuple[int, int]:
    """Return the bytes of this process that are resident, and those of its address space."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()
    size = os.sysconf("SC_PAGE_SIZE")
    return int(pages[1]) * size, int(pages[0]) * size


def host_limit() -> Limit:
    """Return the smaller of the physical memory and the limits of the cgroups that this process is in."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [Limit(physical, "the physical memory"), *_cgroup_limits()]
    return min(limits, key=lambda limit: limit.nbytes)


def address_limit() -> int | None:
    """Return the limit of the address space of this process (`ulimit -v`), None if there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def memory_limit() -> Limit:
    """Return what this process can use at most: the limit of the host, or of its address space."""
    host, address = host_limit(), address_limit()
    return host if address is None or address > host.nbytes else Limit(address, "its limit (ulimit -v)")


def _cgroup_limits() -> Iterator[Limit]:
    """Yield the limits of the groups of this process and of all groups above, of both versions."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        top = _CGROUPS / "memory" if controllers else _CGROUPS
        name = "memory.limit_in_bytes" if controllers else "memory.max"
        group = top / path.lstrip("/")
        # In a container the path may be that of the host: then the root is the group itself.
        for folder in (group, *group.parents):
            if not folder.is_relative_to(top):
                break
            try:
                text = (folder / name).read_text(encoding="ascii").strip()
            except OSError:
                continue
            if text.isdecimal() and int(text) < _UNLIMITED:
                yield Limit(int(text), f"the limit of the control group {folder}")
