"""All GPU benchmarks in one command and one JSON file: accuracy, speed, whole runs.

Everything is measured on one GPU, interleaved; printed are medians with quartiles, and ratios of medians of
one run. Peak rates are measured, too: a large float32 and TF32 matrix product, and a copy. The JSON file is
updated after each part; a part that fails is stored with its error, and the others continue.

    python benchmarks/gpu.py --json gpu.json        # W1 with 16 to 1024 slices, W3, whole networks
    python benchmarks/gpu.py --only W1 --slices 132
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpu_networks
import gpu_runs
import gpu_speed
from gpu_speed import WORKLOADS

from petabatch.bench.machine import machine
from petabatch.engine.gpu import detect
from petabatch.engine.gpu.device import Gpu

BUDGET = 420.0
"""Seconds after which no further part is started."""


class Report:
    """Results by part, printed and written to a file."""

    def __init__(self, path: Path, only: list[str] | None, budget: float) -> None:
        self.found: dict[str, Any] = {"machine": machine(), "parts": {}}
        self._path, self._only, self._budget = path, only, budget
        self._begin = time.monotonic()

    def part(self, name: str, work: Callable[[], Any], always: bool = False) -> Any:
        """Run one part unless it is deselected or out of time; return its result, None if it was not run."""
        if self._only and name.split()[0] not in self._only and not always:
            return None
        begin = time.monotonic()
        late = begin - self._begin > self._budget
        print(f"\n## {name}" + (": skipped, out of time" if late else ""), flush=True)
        entry: dict[str, Any] = {"left out": True} if late else {}
        if not late:
            try:
                entry["found"] = work()
            except Exception as error:
                entry["error"] = f"{type(error).__name__}: {error}"
                traceback.print_exc()
            entry["seconds"] = round(time.monotonic() - begin, 1)
        self.found["parts"][name] = entry
        print(json.dumps(_short(entry), indent=1), flush=True)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self.found, indent=1, default=str) + "\n", encoding="utf-8")
        return entry.get("found")


def _short(value: Any) -> Any:
    """Return numbers rounded to three digits."""
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    return float(f"{value:.3g}") if isinstance(value, float) else value


def has_torch() -> str | None:
    """Return why PyTorch cannot be used for comparison, None if it can."""
    try:
        import torch
    except ImportError as error:
        return str(error)
    return None if torch.cuda.is_available() else "it sees no GPU"


def measure(
    report: Report, device: Gpu, tensor: Gpu, torch: bool, slices: list[int] | None, displays: int
) -> None:
    """Run all parts, the shortest first; `tensor` is the same GPU with TF32."""
    print(detect.report())
    report.found["device"] = detect.report().splitlines()
    unknown = dict.fromkeys(("float32", "TF32", "bytes"), math.nan)
    top = report.part("ceilings", lambda: gpu_speed.ceilings(device), always=True) or unknown
    report.part("kernels", lambda: gpu_speed.agreement(device, tensor))
    for name in WORKLOADS:
        for number in slices or list(WORKLOADS[name][-1]):
            report.part(
                f"{name} {number}",
                lambda name=name, number=number: gpu_speed.compare(name, number, device, tensor, top, torch),
            )
    report.part("two_layer 64", lambda: gpu_networks.two_layers(device, torch, 64))
    report.part("recurrent 1024", lambda: gpu_networks.recurrent_units(device, torch, 1024))
    report.part("resume", gpu_runs.there_and_back)
    report.part("ranks", gpu_runs.ranks)
    report.part("golden", gpu_runs.golden_cases)
    report.part("demo", lambda: gpu_runs.demo(displays))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, default=Path(__file__).parent / "results" / "gpu.json")
    parser.add_argument("--only", nargs="+", help="parts to run, by first word: kernels, W1, two_layer, ...")
    parser.add_argument("--slices", type=int, nargs="+", help="batch sizes (default: those of the workload)")
    parser.add_argument("--displays", type=int, default=60, help="displays of the learning demo")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds after which no part is started")
    parser.add_argument("--no-torch", action="store_true", help="skip PyTorch")
    given = parser.parse_args()
    reason = detect.missing()
    if reason is not None:
        sys.exit(f"nothing is measured: {reason}")
    report = Report(given.json, given.only, given.budget)
    why = "asked for" if given.no_torch else has_torch()
    report.found["torch"] = why or "compared with"
    if why is not None:
        print(f"no comparison with PyTorch: {why}")
    device, tensor = Gpu(0), Gpu(0, tf32=True)
    device.enter()
    measure(report, device, tensor, why is None, given.slices, given.displays)
    print(f"result written to {given.json}")


if __name__ == "__main__":
    main()
