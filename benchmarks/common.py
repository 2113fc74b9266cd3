"""Shared parts of the benchmarks: options, description of the machine, tables and JSON."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from petabatch.bench.machine import machine
from petabatch.bench.trial import Trial
from petabatch.storage.provenance import preset_warning

RESULTS = Path(__file__).parent / "results"


def options(about: str | None, rounds: int, threads: Sequence[int] = (1, 2)) -> argparse.ArgumentParser:
    """Return a parser with the common options."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=list(threads))
    parser.add_argument(
        "--rounds", type=int, default=rounds, help="number of interleaved measurements (default: %(default)s)"
    )
    parser.add_argument("--kernel", default="auto", help="run.kernel of the networks (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="file for the result (default: in benchmarks/results)")
    return parser


def introduce() -> dict[str, Any]:
    """Print and return the description of the machine."""
    about = machine()
    print(f"{about['processor']}, {about['cores']} cores, load {about['load'][0]}; petabatch {about['git']}")  # type: ignore[index]
    print(f"BLAS: {', '.join(about['blas'])}")  # type: ignore[arg-type]
    if warning := preset_warning():
        print(f"warning: {warning}")
    print(flush=True)
    return about


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table in Markdown."""
    for row in (header, ["---"] * len(header), *rows):
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def keep(result: dict[str, Any], name: str, path: Path | None = None) -> None:
    """Write a result as JSON."""
    path = path or RESULTS / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"result written to {path}")


def whole(network: Any) -> Trial:
    """Return a trial that runs all steps of a network."""
    return Trial.of(network, network.run.length)


def micro(seconds: Sequence[float]) -> str:
    """Return a median time in microseconds or milliseconds."""
    value = statistics.median(seconds)
    return f"{value * 1e6:.1f} us" if value < 1e-3 else f"{value * 1e3:.2f} ms"
