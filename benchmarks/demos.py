"""Times of the demos beside those that their pages state.

python benchmarks/demos.py [NAME ...]

Each script runs once, in a folder of its own. Times are those of whole processes, figures included; what went
into compiling or loading kernels is what the runs recorded: a second call loads them. A few minutes for all.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import introduce

import petabatch

ROOT = Path(__file__).parents[1]
NAMES = sorted(script.parent.name for script in ROOT.glob("demos/*/demo.py"))
LIMIT = 300
"""Seconds after which a demo is given up."""


def main() -> None:
    """Run the demos and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"demos (default: all): {', '.join(NAMES)}")
    names = parser.parse_args().names or NAMES
    if unknown := sorted(set(names) - set(NAMES)):
        parser.error(f"there is no demo {', '.join(unknown)}; there are {', '.join(NAMES)}")
    introduce()
    header = ("demo", "page", "clock, s", "processor, s", "of the clock, kernels, s")
    for row in (header, ["---"] * len(header)):
        print("| " + " | ".join(row) + " |")
    for name in names:
        print("| " + " | ".join((name, stated(name), *measured(name))) + " |", flush=True)


def stated(name: str) -> str:
    """Return the time that the page of a demo states."""
    page = (ROOT / "demos" / name / "README.md").read_text()
    found = re.search(rf"^python demos/{name}/demo\.py +# (.*)$", page, re.MULTILINE)
    return found[1] if found else "-"


def measured(name: str) -> tuple[str, str, str]:
    """Return the seconds on the clock, of the processor, and for the kernels of all runs."""
    with tempfile.TemporaryDirectory() as folder:
        for shared in ("demos", "params"):
            Path(folder, shared).symlink_to(ROOT / shared)
        Path(folder, "runs", "demos").mkdir(parents=True)
        used, begin = _processor(), time.perf_counter()
        try:
            done = subprocess.run(
                [sys.executable, f"demos/{name}/demo.py"],
                cwd=folder, env={**os.environ, "MPLBACKEND": "agg"}, timeout=LIMIT,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return f"more than {LIMIT}", "-", "-"
        clock, processor = time.perf_counter() - begin, _processor() - used
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return "failed", "-", "-"
        kernels = 0.0
        for index in Path(folder, "runs").rglob("run.h5"):
            with petabatch.open(index) as run:
                kernels += float(run.attributes.get("times", {}).get("kernels", 0.0))
    return f"{clock:.1f}", f"{processor:.1f}", f"{kernels:.1f}"


def _processor() -> float:
    """Return the processor time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
