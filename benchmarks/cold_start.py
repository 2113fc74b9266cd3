"""First runs with empty caches: the time to compile, beside another version; many processes at once.

    python benchmarks/cold_start.py files /path/to/other/bin/petabatch [--rounds 2] [--threads 2]
    python benchmarks/cold_start.py networks [--networks 20] [--seed 0]
    python benchmarks/cold_start.py processes [--processes 50]

files: a run of one display of two steps of `params/two_layer.toml` and of the main job, in turns with the
other version, each with an empty cache; wall clock, so that nothing else should run.

networks: the same of random networks of the tests, each with an empty cache and in a process of its own; the
slowest comes last.

processes: N concurrent runs of `two_layer.toml` that share one empty cache; their processor time is
compared with that of as many warm starts, and of compilations.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = str(Path(sys.executable).with_name("petabatch"))
SHORT = ("-s", "run.display=2", "-s", "run.displays=1", "-q")
RUN = """
import pickle, sys, warnings
from pathlib import Path
sys.path[:0] = [sys.argv[2]]
warnings.simplefilter("ignore")
from petabatch import errors, in_memory
try:
    in_memory.run(pickle.loads(Path(sys.argv[1]).read_bytes()))
except errors.NonFiniteError:  # as those drawn may diverge
    pass
"""


def started(
    command: list[str], cache: Path, folder: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    """Start a command with a cache."""
    return subprocess.Popen(
        command, cwd=folder, env={**environment, "NUMBA_CACHE_DIR": str(cache)}, stdout=subprocess.DEVNULL
    )


def used(processes: list[subprocess.Popen[bytes]]) -> float:
    """Wait for processes; return their processor time, with that of those they waited for."""
    seconds = 0.0
    for process in processes:
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{process.args!r} failed")
        seconds += usage.ru_utime + usage.ru_stime
    return seconds


def command(petabatch: str, name: str, out: str, threads: int) -> list[str]:
    """Return the command of a short run of a file."""
    return [petabatch, "run", str(ROOT / "params" / name), *SHORT, "--threads", str(threads), "--out", out]


def files(other: str, rounds: int, threads: int) -> None:
    """Print the times of both versions."""
    for name in ("two_layer.toml", "natural_images.toml"):
        times: dict[str, list[float]] = {other: [], COMMAND: []}
        for _ in range(rounds):
            for petabatch in times:
                with tempfile.TemporaryDirectory() as folder:
                    begin = time.perf_counter()
                    used(
                        [
                            started(
                                command(petabatch, name, "out", threads),
                                Path(folder, "c"),
                                Path(folder),
                                plain(),
                            )
                        ]
                    )
                    times[petabatch].append(time.perf_counter() - begin)
        shown = {petabatch: ", ".join(f"{one:.1f}" for one in found) for petabatch, found in times.items()}
        ratio = statistics.median(times[COMMAND]) / statistics.median(times[other])
        print(f"{name}: {shown[other]} s there, {shown[COMMAND]} s here: {ratio:.2f}", flush=True)


def networks(count: int, seed: int) -> None:
    """Print the times of random networks."""
    sys.path[:0] = [str(ROOT / "tests")]
    from petabatch.errors import PetabatchError
    from petabatch.network.build import build
    from support.random_networks.drawing import Drawing
    from support.random_networks.runs import with_run

    warnings.simplefilter("ignore")
    found: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        while len(found) < count:
            seed += 1
            try:
                network = with_run(Drawing(seed, Path(folder)).network(), kernel="auto", precision="float32")
                build(short := with_run(network, display=2, displays=1, steps=None))
            except PetabatchError:
                continue
            file = Path(folder, f"{seed}.pickle")
            file.write_bytes(pickle.dumps(short))
            begin = time.perf_counter()
            line = [sys.executable, "-c", RUN, str(file), str(ROOT / "tests")]
            used([started(line, Path(folder, f"cache{seed}"), Path(folder), plain())])
            found[seed] = time.perf_counter() - begin
            print(f"network {seed}: {found[seed]:.1f} s", flush=True)
    print(f"median {statistics.median(found.values()):.1f} s, slowest {max(found.values()):.1f} s")


def processes(count: int) -> None:
    """Print the processor time of many first runs at once."""

    def together(number: int, cache: Path) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return used(
                [
                    started(command(COMMAND, "two_layer.toml", f"out{n}", 1), cache, Path(folder), plain())
                    for n in range(number)
                ]
            )

    with tempfile.TemporaryDirectory() as folder:
        cold = together(1, Path(folder, "alone"))
        one = together(1, Path(folder, "alone"))
        warm = together(count, Path(folder, "alone"))
        first = together(count, Path(folder, "empty"))
    allowed = warm + 2 * (cold - one)
    print(f"one: {cold:.1f} s cold, {one:.1f} s warm; {count} at once: {warm:.0f} s warm, {first:.0f} s cold")
    print(f"of {count} warm starts and 2 compilations: {first / allowed:.2f}")


def plain() -> dict[str, str]:
    """Return the environment without what tells Python or numba where to find something."""
    hidden = ("PYTHONPATH", "NUMBA_CACHE_DIR", "NUMBA_CPU_NAME")
    return {name: value for name, value in os.environ.items() if name not in hidden}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    of_files = parts.add_parser("files")
    of_files.add_argument("other", help="the command `petabatch` of the other version")
    of_files.add_argument("--rounds", type=int, default=2)
    of_files.add_argument("--threads", type=int, default=2)
    of_networks = parts.add_parser("networks")
    of_networks.add_argument("--networks", type=int, default=20)
    of_networks.add_argument("--seed", type=int, default=0)
    of_processes = parts.add_parser("processes")
    of_processes.add_argument("--processes", type=int, default=50)
    given = parser.parse_args()
    if given.part == "files":
        files(given.other, given.rounds, given.threads)
    elif given.part == "networks":
        networks(given.networks, given.seed)
    else:
        processes(given.processes)


if __name__ == "__main__":
    main()
