"""Kernels that are compiled into the kernels that call them.

Numba makes machine code of every function, and optimises the code of all that a function calls once more on
each level of calls. Here the code of a function that compiled functions call is handed on as it is, and is
optimised once, in the function that Python calls: half of the time of a first compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import count
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature

from petabatch.kernels.cache import find, new_file
from petabatch.kernels.cpu.claim import turn
from petabatch.kernels.cpu.target import target

_numbers = count()


class Kernel(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A function that is compiled by itself when Python calls it, and into its callers by them."""

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        given = {"nopython": True, "boundscheck": None, **options}
        super().__init__(function, targetoptions=given, pipeline_class=Compiler)
        self._inner = _Inner(function, targetoptions=given, pipeline_class=_InnerCompiler)
        self._inner._compiler._customize_flags = _without_entry

    def compile(self, sig: Any) -> Any:
        """Compile for a signature, or load what another process has compiled."""
        args = tuple(normalize_signature(sig)[0])
        if args in self.overloads:
            return self.overloads[args].entry_point
        name = self._cache.name(sig)
        file = None if find(name, target()) is not None else new_file(name, target())
        with turn(file) if file is not None else nullcontext():
            return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the types of a call from a compiled function."""
        return self._inner.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """Return the implementation that compiled functions call."""
        return self._inner.get_overload(sig)

    def add_overload(self, cres: Any) -> None:
        """Keep what was compiled; functions inside it find their environments."""
        codegen = self.targetctx.codegen()
        for one in cres._find_referenced_environments():
            if codegen._engine.get_global_value_address(one.env_name):
                codegen.set_env(one.env_name, one)
        super().add_overload(cres)


class _Inner(CPUDispatcher):  # type: ignore[misc]  # numba has no types
    """A function without machine code of its own."""

    def add_overload(self, cres: Any) -> None:
        """Let compiled functions call what was compiled."""
        kept = cres._replace(entry_point=object())
        self.targetctx.insert_user_function(kept.entry_point, kept.fndesc, [kept.library])
        self.overloads[tuple(kept.signature.args)] = kept


class _InnerCompiler(Compiler):  # type: ignore[misc]  # numba has no types
    """Compiles to code that is linked into that of callers."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *given: Any) -> None:
        inner = _InnerLibrary(targetctx.codegen(), f"inner-{next(_numbers)}")
        super().__init__(typingctx, targetctx, library or inner, *given)


class _InnerLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """The code of a function and of those that it calls, neither optimised as a whole nor made executable."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


def _without_entry(flags: Any) -> Any:
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    return flags
