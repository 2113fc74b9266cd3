"""Start and memory of this version against another one, in turns.

python benchmarks/startup_ratio.py /path/to/other/bin/petabatch [--rounds 21]

Each measurement is a new process, with modules and kernels already compiled: `run` of the main job's
network for one step, from the shell to the end of the process, and `check` of it. `--displays 150` runs the
main job itself, for its largest resident memory. Medians, and ratios of medians to those of the other
version, which is run without PYTHONPATH.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import table

PARAMS = Path(__file__).parents[1] / "params" / "natural_images.toml"


def measure(command: list[str], folder: str, environment: dict[str, str]) -> tuple[float, float, float]:
    """Return wall-clock seconds, processor seconds, and MB of resident memory at most."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed")
    return time.perf_counter() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", help="the command `petabatch` of the other version")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--displays", type=int, help="run this number of displays instead of one step")
    given = parser.parse_args()
    here = [sys.executable, "-m", "petabatch"]
    with tempfile.TemporaryDirectory() as folder:
        length = f"displays = {given.displays}" if given.displays else "steps = 1"
        text = PARAMS.read_text(encoding="utf-8").replace("displays = 150", length)
        Path(folder, "job.toml").write_text(text, encoding="utf-8")
        run = ["run", "job.toml", "-q", "--force", "--out"]
        commands = {
            "run, other": [given.other, *run, "other"],
            "run": [*here, *run, "this"],
            "check": [*here, "check", "job.toml"],
        }
        # Where PYTHONDONTWRITEBYTECODE is set, every start would compile the source of every module.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder, "bytecode"))
        alone = {key: value for key, value in environment.items() if key != "PYTHONPATH"}
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
        for turn in range(given.rounds + 1):
            for name, command in commands.items():
                result = measure(command, folder, alone if name == "run, other" else environment)
                if turn:  # the first turn compiles
                    found[name].append(result)
    medians = {
        name: [statistics.median(kind) for kind in zip(*all_, strict=True)] for name, all_ in found.items()
    }
    other = medians["run, other"]
    table(
        ["", "wall", "processor", "memory", "ratios to the other's run"],
        [
            [name, f"{wall:.3f} s", f"{busy:.3f} s", f"{memory:.0f} MB",
             ", ".join(f"{mine / its:.2f}" for mine, its in zip(values, other, strict=True))]
            for name, values in medians.items()
            for wall, busy, memory in [values]
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
