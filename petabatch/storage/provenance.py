"""Provenance of a run: everything needed to understand and to reproduce it."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from petabatch.parallel.comm import Comm
from petabatch.spec.load import Loaded, resolved
from petabatch.storage.directory import RunDirectory
from petabatch.storage.inputs import summary
from petabatch.threads import thread_pools
from petabatch.version import __version__

PROCESSOR = ("BLAS", "CPU", "CPU features", "kernels for")
"""Names of what differs between processors."""
_COMPARED = ("libraries", "blas", "compiler")
"""Attributes that say what determines the bits."""
_LIBRARIES = (
    "numpy",
    "scipy",
    "numba",
    "llvmlite",
    "h5py",
    "pydantic",
    "mpi4py",
    "cupy-cuda12x",
    "cupy-cuda13x",
)


def collect(
    *,
    params_text: str,
    params: Mapping[str, object],
    seed: int,
    hosts: Sequence[str] = (),
    ranks: int = 1,
    devices: Sequence[str] = (),
    command: Sequence[str] | None = None,
    started: str | None = None,
    overrides: Sequence[str] = (),
) -> dict[str, object]:
    """Return the root attributes of a run file.

    `params_text` is the params file as given, `params` the same with all defaults, ready for JSON. `hosts`
    and `devices` have one entry per rank. `started` (UTC, ISO 8601) is when a resumed run was first started;
    it defaults to now. `overrides` are those of the command line, such as `layers.V1.threshold=0.3`.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "petabatch_version": __version__,
        "git": commit(),
        "command": _utf8(shlex.join(sys.argv if command is None else command)),
        "params_given": params_text,
        "overrides": [_utf8(text) for text in overrides],
        "params": dict(params),
        "seed": seed,
        "ranks": ranks,
        "hosts": list(hosts) or [platform.node()],
        "devices": list(devices),
        "processor": processor(),
        "libraries": library_versions(),
        "blas": blas_libraries(),
        "compiler": compiler(),
        "started": started or now,
        "resumed": now if started else None,
    }


def of_run(
    loaded: Loaded,
    comm: Comm,
    devices: Sequence[str],
    *,
    directory: RunDirectory | None = None,
    before: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what is recorded of a run on the ranks of `comm`, without its durations.

    `before` is that of the run that this process goes on with, in the `directory` of both.
    """
    known, text = before or {}, loaded.text if directory is None else directory.params_text
    found = collect(
        params_text=known.get("params_given") or text,
        params=resolved(loaded.network),
        seed=loaded.network.run.seed,
        hosts=comm.hosts,
        ranks=comm.size,
        devices=devices,
        started=known.get("started"),
        overrides=known.get("overrides") or list(loaded.location.overrides.values()),
    )
    return found if directory is None else {**found, "inputs": summary(directory)}


class Spent:
    """The seconds of a process by activity, with those `before` it of the run that it goes on with."""

    def __init__(self, before: Mapping[str, Any], comm: Comm) -> None:
        self._before, self._comm, self._waited = before, comm, dict(comm.waited)
        self.began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Those of this process."""
        return time.monotonic() - self.began

    def now(self, times: Mapping[str, float]) -> dict[str, float]:
        """Return those of this process: all, and in these `times`, and in which it has waited for others."""
        waited = {name: seconds - self._waited[name] for name, seconds in self._comm.waited.items()}
        return {"all": self.seconds, **times, **waited}

    def record(self, times: Mapping[str, float], ranks: Sequence[Mapping[str, float]] = ()) -> dict[str, Any]:
        """Return what is recorded, of several `ranks` also of each; steps made again count twice."""
        before = {"all": self._before.get("seconds", 0.0), **self._before.get("times", {})}
        now = self.now(times)
        spent = {n: round(before.get(n, 0.0) + now.get(n, 0.0), 3) for n in {**now, **before}}
        record = {"seconds": spent.pop("all"), "times": spent}
        if len(ranks) > 1:
            record["rank_times"] = {n: [round(one.get(n, 0.0), 3) for one in ranks] for n in now}
        return record


def _utf8(text: str) -> str:
    """Return a text that may name paths which are not UTF-8 as one that HDF5 can store."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


@cache
def library_versions() -> Mapping[str, str]:
    """Return the versions of Python, HDF5 and the installed packages that can affect results.

    Looked up once: packages installed while a process runs are not those that it has loaded.
    """
    from h5py.version import hdf5_version

    versions = {"python": platform.python_version(), "hdf5": hdf5_version}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def blas_libraries() -> list[str]:
    """Return name, version and CPU kernels of the BLAS that numpy calls.

    Other packages may bring one of their own, which is loaded when they are imported; no bit depends on it.
    """
    loaded = (entry for entry in thread_pools().info() if entry["user_api"] == "blas")
    return sorted(
        f"{entry['internal_api']} {entry['version']} {entry.get('architecture', 'unknown kernels')}"
        for entry in loaded
        if not _of_another_package(entry["filepath"])
    )


def _of_another_package(library: str) -> bool:
    """Return whether a library comes with an installed package that is not numpy."""
    folders = set(Path(library).parts)
    return bool(folders & {"site-packages", "dist-packages"}) and not folders & {"numpy", "numpy.libs"}


def compiler() -> dict[str, str]:
    """Return the version of LLVM, the processor with its features, and what kernels are compiled for.

    BLAS and numpy follow the processor. `NUMBA_CPU_NAME` names another one to compile kernels for.
    """
    from llvmlite import binding

    from petabatch.kernels.cpu.target import target

    name = os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name()
    enabled = " ".join(sorted(name for name, has in binding.get_host_cpu_features().items() if has))
    version = ".".join(map(str, binding.llvm_version_info))
    return {"LLVM": version, "CPU": name, "CPU features": enabled, "kernels for": target()}


def other_software(before: Mapping[str, Any], now: Mapping[str, Any], portable: bool = False) -> list[str]:
    """Return the software that differs between the provenance of two runs, such as `numpy 2.1, now 2.2`.

    Processors and their BLAS kernels are left out for runs that are `portable` from one to another, if the
    kernels of both were compiled for AVX2 and FMA.
    """
    from petabatch.kernels.cpu.target import LEVELS

    known = ["petabatch_version", *(name for name in _COMPARED if name in before)]
    old, new = (_software({name: about[name] for name in known}) for about in (before, now))
    if portable and {one.get("kernels for") for one in (old, new)} <= LEVELS.keys():
        old, new = ({name: one[name] for name in one if name not in PROCESSOR} for one in (old, new))
    return [
        f"{name} {_change(old.get(name, 'missing'), new.get(name, 'missing'))}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _software(attributes: Mapping[str, Any]) -> dict[str, str]:
    own = {"petabatch": attributes["petabatch_version"], "BLAS": ", ".join(attributes["blas"])}
    return {**attributes["libraries"], **own, **attributes.get("compiler", {})}


def _change(old: str, new: str) -> str:
    """Return two descriptions without the words of a long list that they share."""
    words = set(old.split()) & set(new.split()) if " " in old + new else set()
    short = (" ".join(w for w in text.split() if w not in words) or "without these" for text in (old, new))
    return "{}, now {}".format(*(short if len(words) > 3 else (old, new)))


def preset_warning() -> str | None:
    """Return a warning when OPENBLAS_CORETYPE overrides the choice of BLAS kernels, else None."""
    preset = os.environ.get("OPENBLAS_CORETYPE")
    if not preset:
        return None
    return f"OPENBLAS_CORETYPE={preset} is set, which may halve the speed of sgemm; unset it for benchmarks"


def processor() -> str:
    """Return the model of the CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def commit() -> str | None:
    """Return the commit of petabatch itself: the one it was built from, or that of the checkout it is in."""
    package = Path(__file__).parents[1]
    try:
        return (package / "COMMIT").read_text(encoding="utf-8").strip()  # written by hatch_build.py
    except OSError:
        return _checked_out(package)


@cache
def _checked_out(package: Path) -> str | None:
    """Return the commit of the checkout as it is when the process first asks: that of the loaded code."""
    return git_hash(package)


def git_hash(folder: Path) -> str | None:
    """Return the commit of the checkout that contains `folder`, with `+` if modified; None without one."""

    def git(arguments: tuple[str, ...]) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(folder), *arguments],
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commands = ("ls-files", "--", "."), ("rev-parse", "HEAD"), ("diff", "--quiet", "HEAD", "--", ".")
    with ThreadPoolExecutor(len(commands)) as pool:  # all at once, since a run waits for them when it starts
        files, commit, unchanged = pool.map(git, commands)
    if not files:  # an installed package may lie inside an unrelated checkout
        return None
    return commit if not commit or unchanged is not None else f"{commit}+"
