"""Updates of layers on arrays as the body of a kernel: what they do with symbols in place of arrays.

An update whose launches are the same in each step, on units that do not depend on each other, is a sequence
of operations on numbers. It is called once with symbols, which write down what is done with them. Numbers of
the layer become constants of the slice, so that layers that differ in them alone have one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from petabatch.kernels.cuda.units.functions import FUNCTIONS
from petabatch.kernels.cuda.units.source import Body
from petabatch.kernels.cuda.units.values import TYPES, Value, cast

_SIGNS = {np.add: "+", np.subtract: "-", np.multiply: "*", np.divide: "/", np.true_divide: "/"}
_UNSET = "(unset)"
"""The value of an activity before the update sets it: its array holds what an earlier step left there."""

Update = Callable[[Any, Mapping[str, Any], Sequence[Any], Any, Any], None]
"""Of an array module, state, inputs, activity of the step before, and activity, as `Layer.update`."""


class Untraced(Exception):
    """An update does something else than arithmetic on units."""


def traced(
    update: Update, variables: Sequence[str], buffers: int, one: bool, real: str
) -> tuple[Body, Sequence[float]]:
    """Return the body of an update and its constants, which are the first of a slice.

    `one` says that the activities before and after are the same array, and `real` is "float" or "double".
    Raises Untraced, or what the update itself raises when it meets a symbol.
    """
    trace = _Trace({"float": "f", "double": "d"}[real])
    state = {name: trace.array(f"a{number}") for number, name in enumerate(variables)}
    drive = [trace.array(f"d{number}") for number in range(buffers)]
    previous = trace.array("A")
    activity = previous if one else _Symbol(trace, Value(_UNSET, trace.real))
    # The state is not given other arrays, which the kernel would not see.
    update(_Functions(trace), MappingProxyType(state), drive, previous, activity)
    if not activity.stored or (previous.stored and not one):
        raise Untraced("an activity that is not that of the step")
    ends = [(f"a{number}", symbol) for number, symbol in enumerate(state.values())]
    for place, symbol in (*ends, ("A", activity)):
        if symbol.stored:
            trace.lines.append(f"{place} = {symbol.value.text};")
    return Body("".join(f"    {line}\n" for line in trace.lines), tuple(variables)), trace.constants


class _Trace:
    """What is done so far."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.lines: list[str] = []
        self.constants: list[float] = []
        self._names = 0

    def array(self, place: str) -> _Symbol:
        """Return the symbol of an array, by its number at the beginning."""
        return self.kept(Value(place, self.real))

    def kept(self, value: Value) -> _Symbol:
        """Return the symbol of a result."""
        if _UNSET in value.text:
            raise Untraced("an activity that is read before it is set")
        name, self._names = f"t{self._names}", self._names + 1
        self.lines.append(f"const {TYPES[value.kind]} {name} = {value.text};")
        return _Symbol(self, Value(name, value.kind))

    def value(self, operand: Any) -> Value:
        """Return what an operand is in the kernel: numbers of Python have the type of arrays."""
        if isinstance(operand, _Symbol):
            return operand.value
        kind = type(operand)
        if kind not in (bool, int, float, np.bool_, self.dtype.type):
            raise Untraced(f"{kind.__name__} among arrays of units")
        self.constants.append(float(operand))
        return Value(f"c[{len(self.constants) - 1}]", self.real)

    @property
    def dtype(self) -> np.dtype:
        """The type of arrays."""
        return np.dtype({"f": np.float32, "d": np.float64}[self.real])

    def numbers(self, operands: Sequence[Any]) -> list[Value]:
        """Return operands in the type of arrays; without an array of numbers numpy computes in another."""
        if not any(isinstance(one, _Symbol) and one.value.kind == self.real for one in operands):
            raise Untraced("arithmetic with truth values alone")
        return [Value(cast(one, self.real), self.real) for one in map(self.value, operands)]

    def arithmetic(self, sign: str, *operands: Any) -> _Symbol:
        """Return the symbol of a sum, a difference, a product or a quotient."""
        x, y = self.numbers(operands)
        return self.kept(Value(f"{x.text} {sign} {y.text}", self.real))

    def comparison(self, sign: str, a: Any, b: Any) -> _Symbol:
        """Return the symbol of a comparison."""
        x, y = self.value(a), self.value(b)
        return self.kept(Value(f"{cast(x, self.real)} {sign} {cast(y, self.real)}", "b"))

    def logic(self, sign: str, a: Any, b: Any) -> _Symbol:
        """Return the symbol of a conjunction or an alternative."""
        x, y = self.value(a), self.value(b)
        if {x.kind, y.kind} != {"b"}:
            raise Untraced("bits of numbers")
        return self.kept(Value(f"{x.text} {sign} {y.text}", "b"))


def _binary(kind: str, sign: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def operate(self: _Symbol, other: Any) -> _Symbol:
        made: _Symbol = getattr(self.trace, kind)(sign, *((other, self) if swapped else (self, other)))
        return made

    return operate


def _in_place(operate: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def change(self: _Symbol, other: Any) -> _Symbol:
        self.receive(operate(self, other))
        return self

    return change


class _Symbol:
    """An array with one number for each thread."""

    __array_ufunc__ = None  # so that numpy's numbers leave operations to it
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: _Trace, value: Value) -> None:
        self.trace, self.value, self.stored = trace, value, False

    def assign(self, value: Any) -> None:
        """Change all numbers."""
        found = self.trace.value(value)
        self.value = self.trace.kept(Value(cast(found, self.value.kind), self.value.kind)).value
        self.stored = True

    def receive(self, result: _Symbol) -> None:
        """Become the result of an operation, which numpy stores in arrays of its type."""
        if result.value.kind != self.value.kind:
            raise Untraced("a result in an array of another type")
        self.assign(result)

    @property
    def dtype(self) -> np.dtype:
        """The type of the numbers."""
        return np.dtype(bool) if self.value.kind == "b" else self.trace.dtype

    def copy(self) -> _Symbol:
        """Return another array with the same numbers."""
        return self.trace.kept(self.value)

    def __getitem__(self, key: Any) -> _Symbol:
        self._whole(key)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        self._whole(key)
        self.assign(value)

    def _whole(self, key: Any) -> None:
        if key is not Ellipsis and not (isinstance(key, slice) and key == slice(None)):
            raise Untraced("a part of an array")

    def __bool__(self) -> bool:
        raise Untraced("a decision by the number of a unit")

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise Untraced("a function of numpy, which is not that of the array module")

    def __reduce_ex__(self, _: Any) -> str:
        raise Untraced("a copy by Python")

    __add__, __radd__ = _binary("arithmetic", "+"), _binary("arithmetic", "+", True)
    __sub__, __rsub__ = _binary("arithmetic", "-"), _binary("arithmetic", "-", True)
    __mul__, __rmul__ = _binary("arithmetic", "*"), _binary("arithmetic", "*", True)
    __truediv__, __rtruediv__ = _binary("arithmetic", "/"), _binary("arithmetic", "/", True)
    __lt__, __le__ = _binary("comparison", "<"), _binary("comparison", "<=")
    __gt__, __ge__ = _binary("comparison", ">"), _binary("comparison", ">=")
    __eq__, __ne__ = _binary("comparison", "=="), _binary("comparison", "!=")
    __and__, __rand__ = _binary("logic", "&&"), _binary("logic", "&&", True)
    __or__, __ror__ = _binary("logic", "||"), _binary("logic", "||", True)

    def __pow__(self, exponent: Any) -> _Symbol:
        if type(exponent) is not int or exponent != 2:
            raise Untraced("a power")
        return self.trace.arithmetic("*", self, self)

    # Without these, Python would give the name to the result, and the array would keep its numbers.
    __iadd__, __isub__, __imul__ = _in_place(__add__), _in_place(__sub__), _in_place(__mul__)
    __itruediv__, __ipow__ = _in_place(__truediv__), _in_place(__pow__)
    __iand__, __ior__ = _in_place(__and__), _in_place(__or__)

    def __neg__(self) -> _Symbol:
        (value,) = self.trace.numbers([self])
        return self.trace.kept(Value(f"-{value.text}", value.kind))

    def __invert__(self) -> _Symbol:
        if self.value.kind != "b":
            raise Untraced("bits of numbers")
        return self.trace.kept(Value(f"!{self.value.text}", "b"))

    def __abs__(self) -> _Symbol:
        return self.trace.kept(FUNCTIONS[abs](self.value))


class _Functions:
    """The functions of an array module on symbols."""

    def __init__(self, trace: _Trace) -> None:
        self._trace = trace

    def __getattr__(self, name: str) -> Callable[..., _Symbol]:
        known = getattr(np, name, None)
        if known not in _SIGNS and known not in FUNCTIONS:
            raise Untraced(f"the function {name}")

        def call(*operands: Any, out: _Symbol | None = None) -> Any:
            made = self._called(known, name, operands)
            if out is None:
                return made
            if known is np.where or not isinstance(made, _Symbol):
                raise Untraced(f"a result of {name} in an array")
            out.receive(made)
            return out

        return call

    def _called(self, known: Any, name: str, operands: Sequence[Any]) -> Any:
        if len(operands) != getattr(known, "nin", 3):  # one more would be `out`
            raise Untraced(f"{name} with {len(operands)} arguments")
        if not any(isinstance(one, _Symbol) for one in operands):
            return known(*operands)
        if known in _SIGNS:
            return self._trace.arithmetic(_SIGNS[known], *operands)
        if known is np.where:
            condition, *both = operands
            given = [self._trace.value(condition), *self._trace.numbers(both)]
        else:
            given = self._trace.numbers(operands)
        return self._trace.kept(FUNCTIONS[known](*given))
