"""Files of compiled kernels: machine code, and what calls of it need.

Before numba loads a function from a file of its own, it prepares to compile another: it imports 200 modules,
scipy.linalg among them, compiles its runtime, and parses the bitcode of the function. This takes longer, and
more memory, than all else that a run does before its first step. Machine code needs the addresses of the
functions that it calls, and its environments.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import numba
from llvmlite import binding
from numba.core import serialize
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CR_FIELDS, CompileResult
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime import _nrt_python

_KNOWN = ((0, 61), (0, 68))
"""The first and the last version of numba whose parts are known here to be as below and in `inner.py`."""


def can_load() -> bool:
    """Return whether this version of numba is a known one; kernels of another one are not kept."""
    return _KNOWN[0] <= tuple(map(int, numba.__version__.split(".")[:2])) <= _KNOWN[1]


def saved(compiled: Any) -> bytes:
    """Return the content of the file of a compiled function, a checksum first."""
    library = compiled.library
    compiled.fndesc.typemap = compiled.fndesc.calltypes = None  # as numba does: they are of no use any more
    content: bytes = serialize.dumps(
        (
            library.name,
            library._get_compiled_object(),
            compiled.fndesc,
            compiled.environment,
            compiled.signature,
            tuple(compiled.reload_init),
            tuple(compiled._find_referenced_environments()),
        )
    )
    return crc32(content).to_bytes(4, "little") + content


def load(file: Path, context: Any) -> Any:
    """Return the compiled function in a file; numba's compiler lock is held."""
    content = file.read_bytes()
    if crc32(content[4:]).to_bytes(4, "little") != content[:4]:
        raise ValueError("its checksum differs")
    _register_runtime()
    name, code, about, environment, signature, init, used = _Unpickler(io.BytesIO(content[4:])).load()
    for function in init:
        function()
    codegen = context.codegen()
    library = _Library(codegen, name)
    library.take(code, (about.llvm_cpython_wrapper_name, about.env_name))
    values = {
        "entry_point": context.get_executable(library, about, environment),
        "environment": environment,
        "fndesc": about,
        "library": library,
        "lifted": (),
        "objectmode": False,
        "referenced_envs": used,
        "reload_init": init,
        "signature": signature,
        "target_context": context,
        "typing_context": context.typing_context,
    }
    for one in used:
        codegen.set_env(one.env_name, one)
    return CompileResult(**{**dict.fromkeys(CR_FIELDS), **values})


@cache
def _register_runtime() -> None:
    """Let machine code find numba's runtime, as numba does before it compiles."""
    for name, address in _nrt_python.c_helpers.items():
        binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


class _Library(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Machine code without the code that it was made of."""

    def take(self, machine: bytes, symbols: Sequence[str]) -> None:
        """Link the machine code, which defines `symbols`."""
        self.enable_object_caching()
        self._set_compiled_object(machine)
        self._finalize_final_module()
        self._codegen._engine._defined_symbols.update(symbols)


class _Unpickler(pickle.Unpickler):
    """Does not import the modules of environments: compiled code reads none of their globals."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a file refers to."""
        if (module, name) == ("numba.core.environment", "_rebuild_env"):
            return _environment
        return super().find_class(module, name)


def _environment(module: str, constants: Sequence[object], name: str) -> Environment:
    """Return the environment of a function, as `numba.core.environment._rebuild_env` does."""
    known = lookup_environment(name)
    if known is not None:
        return known
    made = Environment(vars(sys.modules[module]) if module in sys.modules else {"__name__": module})
    made.consts[:] = constants
    made.env_name = name
    Environment._memo[name] = made
    return made
