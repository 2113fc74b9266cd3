"""Share of a run that goes into its files: checksums, the index, compaction.

    python benchmarks/bench_files.py FILE [KEY=VALUE ...]

Runs a params file in a temporary directory on one thread, and times the functions that write. Printed are
their processor time and wall time, as shares of the whole run, the longest flush without its writing, and the
number of segments at the end.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from petabatch import session, simulation
from petabatch.storage import compact, manifest

spent: dict[str, list[tuple[float, float]]] = defaultdict(list)


def timed(room: Any, name: str, label: str) -> None:
    real: Callable[..., Any] = getattr(room, name)

    def wrapper(*arguments: Any, **options: Any) -> Any:
        clock = time.process_time if label == "run" else time.thread_time  # lanes have their own threads
        wall, processor = time.perf_counter(), clock()
        try:
            return real(*arguments, **options)
        finally:
            spent[label].append((time.perf_counter() - wall, clock() - processor))

    setattr(room, name, wrapper)


def main() -> None:
    timed(manifest, "checksum", "checksums")
    timed(session, "write_segment", "segments")
    timed(session, "save_checkpoint", "checkpoints")
    timed(session, "write_index", "index, with compaction")
    timed(session, "compact", "compaction at other flushes")
    timed(compact, "_merge_rows", "compaction in all")
    timed(session.RunSession, "run", "run")
    with tempfile.TemporaryDirectory() as folder:
        loaded = simulation.read(Path(sys.argv[1]), sys.argv[2:])
        simulation.run(loaded, Path(folder) / "run", mpi=False, quiet=True, threads=1)
        count = sum(1 for _ in (Path(folder) / "run" / "parts").iterdir())
    wall, processor = spent.pop("run")[0]
    print(
        f"{'':30} {'calls':>7} {'wall s':>8} {'share':>8} {'longest ms':>11} {'processor s':>12} {'share':>8}"
    )
    for label, times in sorted(spent.items()):
        a, b = (sum(column) for column in zip(*times, strict=True))
        longest = 1e3 * max(times)[0]
        print(
            f"{label:30} {len(times):7} {a:8.2f} {a / wall:8.2%} {longest:11.1f} {b:12.2f} "
            f"{b / processor:8.2%}"
        )
    print(f"{'run':30} {1:7} {wall:8.2f} {'':8} {'':11} {processor:12.2f}; {count} segments at the end")


if __name__ == "__main__":
    main()
