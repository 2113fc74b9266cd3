"""Compiled functions at an address: calls of a function that is chosen when the program runs."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

SIGNATURE = (types.int64,)
"""Of a function that is called by its address: it takes the address of a table, and returns nothing."""


def address_of(dispatcher: Any) -> int:
    """Return the address of a function compiled for `SIGNATURE`, as `call_at` takes it."""
    dispatcher.compile(SIGNATURE)
    found = dispatcher.overloads[SIGNATURE]
    library, name = found.library, found.fndesc.llvm_func_name
    library.codegen._engine._defined_symbols.add(name)
    address: int = library.get_pointer_to_function(name)
    return address


@intrinsic
def call_at(typing: Any, address: Any, table: Any) -> Any:
    """Call the function at an address; what it raises is raised."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        convention = context.call_conv
        kind = convention.get_function_type(types.none, SIGNATURE)
        function = builder.inttoptr(args[0], kind.as_pointer())
        status, _ = convention.call_function(builder, function, types.none, SIGNATURE, [args[1]])
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.none(types.int64, types.int64), generate
