"""Share of a run that goes into its files: checksums, the index, compaction.

    python benchmarks/bench_files.py FILE [KEY=VALUE ...]

Runs a params file in a temporary directory on one thread, and times the functions that write. Printed are
their processor time and wall time, as shares of the whole run; the longest call on the clock and in
processor time; the mean processor time of the first and of the last tenth of the calls, which tells whether
a cost grows with the run; and the number of segments at the end. The longest flush without its writing is
that of the index or of compaction.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

from petabatch import session, simulation
from petabatch.storage import atomic, compact

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
    timed(atomic, "seal", "seals")
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
        f"{'':30} {'calls':>7} {'wall s':>8} {'share':>8} {'processor s':>12} {'share':>8} "
        f"{'longest ms':>11} {'processor':>10} {'first ms':>9} {'last ms':>8}"
    )
    for label, times in sorted(spent.items()):
        walls, processors = zip(*times, strict=True)
        tenth = max(1, len(times) // 10)
        first, last = (1e3 * mean(few) for few in (processors[:tenth], processors[-tenth:]))
        print(
            f"{label:30} {len(times):7} {sum(walls):8.2f} {sum(walls) / wall:8.2%} {sum(processors):12.2f} "
            f"{sum(processors) / processor:8.2%} {1e3 * max(walls):11.1f} {1e3 * max(processors):10.1f} "
            f"{first:9.2f} {last:8.2f}"
        )
    print(f"{'run':30} {1:7} {wall:8.2f} {'':8} {processor:12.2f}; {count} segments at the end")


if __name__ == "__main__":
    main()
