"""NVIDIA's run-time compiler, which needs no GPU: kernels for real ones, and what they take of it."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

NO_NVRTC = "there is no NVRTC here to compile CUDA kernels: pip install nvidia-cuda-nvrtc-cu12"


class Use(NamedTuple):
    """What a compiled kernel takes of a multiprocessor."""

    registers: int
    """Of each thread."""
    spilled: int
    """Bytes of each thread that do not fit in registers."""


@cache
def loaded() -> Any:
    """Return NVRTC, None where it is not installed."""
    places = importlib.util.find_spec("nvidia")
    for folder in places.submodule_search_locations or () if places else ():
        for file in sorted(Path(folder).glob("*/lib/libnvrtc.so.*")):
            if "alt" not in file.name:
                return ctypes.CDLL(str(file))
    return None


def architectures() -> list[int]:
    """Return the compute capabilities that it compiles for, such as 90."""
    count = ctypes.c_int()
    assert loaded().nvrtcGetNumSupportedArchs(ctypes.byref(count)) == 0
    found = (ctypes.c_int * count.value)()
    assert loaded().nvrtcGetSupportedArchs(found) == 0
    return list(found)


def compiled(code: str, architecture: int) -> dict[str, Use]:
    """Return the use of each kernel of a source; raises AssertionError with the log if there is an error."""
    nvrtc, program = loaded(), ctypes.c_void_p()
    options = [f"--gpu-architecture=sm_{architecture}", "--std=c++17", "--ptxas-options=--verbose"]
    given = (ctypes.c_char_p * len(options))(*(each.encode() for each in options))
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None, None)
    assert made == 0
    try:
        failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, text)
        log = text.value.decode()
        assert failed == 0, log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    pattern = (
        r"entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores.*?Used (\d+) registers"
    )
    found = re.findall(pattern, log, re.S)
    return {name: Use(int(registers), int(spilled)) for name, _, spilled, registers in found}
