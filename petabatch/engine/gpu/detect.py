"""Detection of the GPUs of this machine, through CuPy."""

from __future__ import annotations

import importlib.util
from typing import Any

from petabatch.errors import install
from petabatch.parallel import gpu_sums

OLDEST = 8.0
"""Compute capability from which a block can have enough shared memory."""


def missing() -> str | None:
    """Return why no GPU can be used, None when one can."""
    if importlib.util.find_spec("cupy") is None:
        return f"CuPy is not installed: {install('gpu')}, or '.[gpu-cuda12]' for a driver of CUDA 12"
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except (ImportError, RuntimeError, OSError) as error:
        return f"CuPy finds no driver that works: {' '.join(str(error).split())}"
    if count == 0:
        return "the driver works and shows no device (is CUDA_VISIBLE_DEVICES empty?)"
    best = max(_capability(cupy, number) for number in range(count))
    return None if best >= OLDEST else f"the GPU has compute capability {best}, and {OLDEST} is needed"


def count() -> int:
    """Return the number of GPUs that this process sees."""
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


def report() -> str:
    """Return what GPUs there are, one a line, or why there are none."""
    reason = missing()
    if reason is not None:
        return f"devices            cpu only: {reason}"
    import cupy

    lines = []
    for number in range(cupy.cuda.runtime.getDeviceCount()):
        about = cupy.cuda.runtime.getDeviceProperties(number)
        lines.append(
            f"device {number}           {device_name(about)}, {about['totalGlobalMem'] / 2**30:.0f} GiB, "
            f"{about['multiProcessorCount']} multiprocessors, compute capability "
            f"{about['major']}.{about['minor']}, {device_uuid(about)}"
        )
    lines.append(f"sums of ranks      {gpu_sums.route()}")
    return "\n".join(lines)


def _capability(cupy: Any, number: int) -> float:
    about = cupy.cuda.runtime.getDeviceProperties(number)
    return float(f"{about['major']}.{about['minor']}")


def device_name(about: dict[str, Any]) -> str:
    """Return the name of a GPU from its CUDA properties."""
    name = about["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def device_uuid(about: dict[str, Any]) -> str:
    """Return the identifier of a GPU from its CUDA properties, as nvidia-smi prints it."""
    digits = bytes(about["uuid"]).hex().ljust(32, "0")
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32])
    return "GPU-" + "-".join(parts)
