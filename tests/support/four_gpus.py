"""Four emulated GPUs in place of those of this machine; imported by processes that tests start."""

from __future__ import annotations

from petabatch.engine.gpu import choose, detect
from support.gpu_emulation import EmulatedGpu

detect.missing = lambda: None  # type: ignore[assignment]
detect.count = lambda: 4  # type: ignore[assignment]
choose.Gpu = lambda number, tf32: EmulatedGpu(uuid=f"GPU-{number}")  # type: ignore[assignment,misc]
