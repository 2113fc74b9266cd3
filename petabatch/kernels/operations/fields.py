"""Fields of operations: what a declared field is in a compiled record, and in the kernel that reads it.

An operation is a frozen dataclass. Each of its fields of a type below is part of its record, under its own
name; so is each `Key`, and each property of an `Annotated` type, which follow from other fields. Fields of
other types are for Python alone.

    int, bool, tuple[int, int], ...      a column each
    float, tuple[float, float, float]    a number each, float64, which may differ between slices
    Cell, Growth                         named tuples; the record has each of their numbers
    Numbers                              all further numbers
    Source                               an array and how many steps ago; a kernel gets it at that step
    Sources, Buffers                     arrays that are summed up, of one buffer or of several
    Floats                               the key of an array of the precision of the run, or ""
    Doubles, Ints, Longs, Words          the same of float64, int32, int64, uint64
    Geometry                             how patches of one layer lie on another
    Border                               of a layer
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, Protocol, get_type_hints

from petabatch.geometry import Patches
from petabatch.kernels.rules import Cell
from petabatch.kernels.timescale import Growth
from petabatch.variable import Border

HEADER = 8
"""Columns of a row before those of its operation; the last is the array that is written."""
ZERO, CONSTANT, MIRROR = range(3)
"""Borders."""


@dataclass(frozen=True)
class Source:
    """An array that a layer's input is summed up from, of `lookback` steps ago."""

    key: str
    lookback: int = 0
    factor: float = 1.0
    buffer: int = 0

    def __str__(self) -> str:
        name = short(self.key) + (f"[-{self.lookback}]" if self.lookback else "")
        return name if self.factor == 1 else f"-{name}" if self.factor == -1 else f"{self.factor:g} {name}"


def short(key: str) -> str:
    """Return the key of an array as it is printed: V1 for the activity of a layer, V1.V for another."""
    kind, _, name = key.partition("/")
    if kind == "scratch":
        return f"<{name}>"
    if kind == "records":
        return f"<record of {short(name)}>"
    if kind == "margins":
        return f"<{name} and its margin>"
    layer, _, variable = name.partition("/")
    return layer if variable == "A" else f"{layer}.{variable}"


class Tables(Protocol):
    """Where records are written: what fields name, by number."""

    def array(self, key: str) -> int:
        """Return the number of an array."""

    def geometry(self, p: Patches) -> int:
        """Return the number of a geometry."""

    def summed(self, sources: Sequence[Source]) -> tuple[int, int]:
        """Add sources that are summed up; return where they begin and end."""

    def driven(self, drives: Sequence[Any]) -> tuple[int, int]:
        """Add drives of a code; return where they begin and end."""


Encode = Callable[[Any, Tables], tuple[Iterable[int], Iterable[float]]]


@dataclass(frozen=True)
class Kind:
    """What fields of a type are in a record."""

    encode: Encode
    """Its columns and its numbers."""
    plain: str
    """The source text of what is stored, with `{0}`, `{1}`, ... for its columns; empty for numbers."""
    view: str = ""
    """Source text of the value in a step of one slice, with `{n}` for its first number.

    As stored if empty."""
    columns: int = 1
    numbers: int = 0
    open: bool = False
    """Its columns or numbers are as many as there are, after all others."""
    types: tuple[type, ...] = ()
    """Those that the source texts name."""


def _array(view: str) -> Kind:
    return Kind(lambda key, to: ((to.array(key) if key else 0,), ()), "row[{0}]", view)


def _source(source: Source, to: Tables) -> tuple[Iterable[int], Iterable[float]]:
    return (to.array(source.key), source.lookback), ()


def _buffers(buffers: Sequence[Sequence[Source]], to: Tables) -> tuple[Iterable[int], Iterable[float]]:
    ends = [to.summed(sources) for sources in buffers]
    return (ends[0][0] if ends else to.summed(())[0], *(last for _, last in ends)), ()


def _border(border: Border, to: Tables) -> tuple[Iterable[int], Iterable[float]]:
    code = {"zero": ZERO, "mirror": MIRROR}.get(str(border), CONSTANT)
    return (code,), (float(border) if code == CONSTANT else 0.0,)


Floats = Annotated[str, _array("floats(arrays, row[{0}], 0)")]
Doubles = Annotated[str, _array("doubles(arrays, row[{0}])")]
Ints = Annotated[str, _array("ints(arrays, row[{0}])")]
Longs = Annotated[str, _array("longs(arrays, row[{0}])")]
Words = Annotated[str, _array("unsigned(arrays, row[{0}])")]
Out = Annotated[str, _array("floats(arrays, row[{0}], step)")]
"""The array that is written, of the precision of the run, at the step."""
Count = Annotated[int, Kind(lambda value, to: ((int(value),), ()), "row[{0}]")]
Flag = Annotated[bool, Kind(lambda value, to: ((int(value),), ()), "row[{0}] != 0")]
Number = Annotated[float, Kind(lambda value, to: ((), (float(value),)), "", "own[{n}]", 0, 1)]
Numbers = Annotated[Sequence[float], Kind(lambda values, to: ((), values), "", "own[{n}:]", 0, 0, True)]


def _integers(count: int) -> Kind:
    text = ", ".join(f"row[{{{n}}}]" for n in range(count))
    return Kind(lambda values, to: (values, ()), f"({text})", columns=count)


_FLOATS = {int: "int(own[{n}])", bool: "own[{n}] != 0", float: "own[{n}]"}


def _of_tuple(of: Any) -> Kind:
    """Return the kind of named tuples of numbers, which may be in one another; floats are float64.

    Others than plain ones (`numpy.float32`, `Single`) are `real` in kernels, of the precision of the run.
    """
    texts, count, types = list[str](), 0, {of}
    for hint in get_type_hints(of, include_extras=True).values():
        inner = _of_tuple(hint) if hasattr(hint, "_fields") else None
        text = inner.view if inner else _FLOATS.get(hint, "real(own[{n}])")
        texts.append(text.replace("{n}", f"{{n}} + {count}"))
        count, types = count + (inner.numbers if inner else 1), types | set(inner.types if inner else ())
    view = f"{of.__name__}({', '.join(texts)})"
    return Kind(lambda values, to: ((), _flat(values)), "", view, 0, count, types=tuple(types))


def _flat(values: Any) -> Iterator[float]:
    for value in values:
        yield from _flat(value) if isinstance(value, tuple) else (float(value),)


_PAIR = "(row[{0}], row[{1}])"
Read = Annotated[Source, Kind(_source, _PAIR, "floats(arrays, row[{0}], step - row[{1}])", 2)]
Sources = Annotated[Sequence[Source], Kind(lambda sources, to: (to.summed(sources), ()), _PAIR, "", 2)]
Buffers = Annotated[Sequence[Sequence[Source]], Kind(_buffers, "row[{0}:]", "", open=True)]
"""Sources, buffer by buffer: where those of the first begin, and where those of each end."""
Drives = Annotated[Sequence[Any], Kind(lambda drives, to: (to.driven(drives), ()), _PAIR, "", 2)]
Geometry = Annotated[Patches, Kind(lambda p, to: ((to.geometry(p),), ()), "row[{0}]", "shapes[row[{0}]]")]
_KINDS: dict[Any, Any] = {
    int: Count,
    bool: Flag,
    float: Number,
    Source: Read,
    Border: Annotated[Border, Kind(_border, "row[{0}]", "(row[{0}], own[{n}])", 1, 1)],
    tuple[float, float, float]: Annotated[
        tuple[float, float, float], Kind(lambda values, to: ((), values), "", "own[{n} : {n} + 3]", 0, 3)
    ],
    **{of: Annotated[of, _of_tuple(of)] for of in (Cell, Growth)},
    tuple[int, int]: Annotated[tuple[int, int], _integers(2)],
    tuple[int, int, int]: Annotated[tuple[int, int, int], _integers(3)],
}
"""Of fields of plain types."""


class Key:
    """An array of a record whose key follows from other fields; there is none unless `only` is true."""

    def __init__(self, of: Any, template: str, only: str = "") -> None:
        """`of` is the type of the array, `template` a format of the record, `only` one of its fields."""
        self.type, self._template, self._only = of, template, only

    def __get__(self, one: Any, owner: Any = None) -> str:
        return self._template.format(one) if not self._only or getattr(one, self._only) else ""


class Field(NamedTuple):
    """A field in a record."""

    name: str
    kind: Kind
    column: int
    """Its first column."""
    number: int
    """Its first number."""

    @property
    def plain(self) -> str:
        """The source text of what is stored."""
        return self._filled(self.kind.plain)

    @property
    def view(self) -> str:
        """The source text of the value in a step of one slice."""
        return self._filled(self.kind.view or self.kind.plain)

    def _filled(self, text: str) -> str:
        return text.format(*range(self.column, self.column + max(1, self.kind.columns)), n=self.number)


def fields_of(record: Any) -> tuple[Field, ...]:
    """Return the fields of a record, as they are declared; those with open ends have the last columns."""
    return _fields_of(record)


@cache
def _fields_of(record: Any) -> tuple[Field, ...]:
    kinds = _declared(record)
    column, number, places = (HEADER if "out" in kinds else 0), 0, {}
    for name, kind in sorted(kinds.items(), key=lambda item: item[1].open):
        at = HEADER - 1 if name == "out" else column
        places[name] = Field(name, kind, at, number)
        column += kind.columns if name != "out" else 0
        number += kind.numbers
    return tuple(places[name] for name in kinds)


def _declared(record: type) -> dict[str, Kind]:
    hints = get_type_hints(record, include_extras=True)
    for base in reversed(record.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Key):
                hints[name] = value.type
            elif isinstance(value, property):
                hint = get_type_hints(value.fget, include_extras=True).get("return")
                hints[name] = hint if hasattr(hint, "__metadata__") else None
    found = {name: _KINDS.get(hint, hint) for name, hint in hints.items() if name[0] != "_"}
    return {
        name: hint.__metadata__[0]
        for name, hint in found.items()
        if isinstance(getattr(hint, "__metadata__", (None,))[0], Kind)
    }


def encoded(record: Any, to: Tables) -> tuple[list[int], list[float]]:
    """Return the columns of a record, the header left 0 but for what is written, and its numbers."""
    fields = fields_of(type(record))
    columns = [0] * max(one.column + one.kind.columns for one in fields)
    numbers = [0.0] * sum(one.kind.numbers for one in fields)
    for one in fields:
        some, more = one.kind.encode(getattr(record, one.name), to)
        columns[one.column : one.column + one.kind.columns] = some
        numbers[one.number : one.number + one.kind.numbers] = more
    return columns, numbers
