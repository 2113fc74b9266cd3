"""Loading of compiled kernels from numba's files, without what only the compiler needs.

Before numba loads a compiled function, it prepares to compile another: it imports 200 modules, scipy.linalg
among them, compiles its runtime, and parses the bitcode of the function. This takes longer, and more memory,
than all else that a run does before its first step. Machine code needs the addresses of the functions that it
calls, and its environments; the bitcode is for inlining into other functions, when they are compiled.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CR_FIELDS, CompileResult
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime import _nrt_python

_KNOWN = ((0, 61), (0, 68))
"""The first and the last version of numba whose files and runtime are known here to be as below."""


def can_load() -> bool:
    """Return whether this version of numba is a known one; another one has to load its files itself."""
    return _KNOWN[0] <= tuple(map(int, numba.__version__.split(".")[:2])) <= _KNOWN[1]


def load(file: Path, context: Any) -> Any:
    """Return the compiled function in a `.nbc` file; numba's compiler lock is held."""
    _register_runtime()
    saved = _Unpickler(io.BytesIO(file.read_bytes())).load()
    (name, kind, code), about, environment, signature, objectmode, lifted, annotation, init, used = saved
    if kind != "object":
        raise ValueError(f"{kind}, expected machine code")
    machine, bitcode = code
    for function in init:
        function()
    codegen = context.codegen()
    library = _Library(codegen, name)
    library.take(machine, bitcode, (about.llvm_cpython_wrapper_name, about.env_name))
    values = {
        "entry_point": context.get_executable(library, about, environment),
        "environment": environment,
        "fndesc": about,
        "library": library,
        "lifted": lifted,
        "objectmode": objectmode,
        "referenced_envs": used,
        "reload_init": init,
        "signature": signature,
        "target_context": context,
        "type_annotation": annotation,
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
    """Machine code, with bitcode that is parsed when another function is compiled that calls this one."""

    _bitcode: bytes | None = None
    _module: Any = None

    def take(self, machine: bytes, bitcode: bytes, symbols: Sequence[str]) -> None:
        """Link the machine code, which defines `symbols`."""
        self._bitcode = bitcode
        self.enable_object_caching()
        self._set_compiled_object(machine)
        self._finalize_final_module()
        self._codegen._engine._defined_symbols.update(symbols)

    @property
    def _shared_module(self) -> Any:
        if self._module is None and self._bitcode is not None:
            self._module, self._bitcode = binding.parse_bitcode(self._bitcode), None
            self._codegen._engine._load_defined_symbols(self._module)
        return self._module

    @_shared_module.setter
    def _shared_module(self, module: Any) -> None:
        self._module = module


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
