"""Row functions as the body of a kernel: a thread calls the function with one unit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from petabatch.kernels.cuda.units.source import Body
from petabatch.kernels.cuda.units.statements import Translation
from petabatch.kernels.cuda.units.values import TYPES, Array, Group, Value
from petabatch.kernels.rows import BEFORE, Form


@cache
def row_body(function: Callable[..., None], form: Form, real: str) -> Body:
    """Return the update of a unit by a row function, which is never promised how many units it has.

    `real` is "float" or "double". Raises Untranslated, with the line, where there is no translation.
    """
    kind = {"float": "f", "double": "d"}[real]
    names = [name for name in (*form.variables, *form.draws) if name != BEFORE]
    places = {name: Array(f"a{number}") for number, name in enumerate(names)} | {BEFORE: Array("before")}
    drive = Group({number: Array(f"d{number}") for number in range(form.buffers)})
    state, draws = (Group({name: places[name] for name in some}) for some in (form.variables, form.draws))
    taken, numbers = iter(range(form.numbers)), {}
    for name, what, length in form.parameters:
        each = [_number(next(taken), what, kind) for _ in range(max(1, length))]
        numbers[name] = Group(dict(enumerate(each))) if length else each[0]
    if form.timed:
        numbers["t"] = Value("time", "d")
    translation = Translation(kind)
    text = translation.function(function, (Group(numbers), state, drive, draws, Array("A")), False)
    head = f"    {real} before = A;\n    (void)before;\n" if BEFORE in form.variables else ""
    return Body(head + text, tuple(names), "".join(translation.helpers), form.numbers)


def _number(place: int, what: str, real: str) -> Value:
    kind = {"float": real, "double": "d", "int": "i", "bool": "b"}[what]
    text = f"n[{place}]"
    return Value(f"({text} != 0)" if kind == "b" else f"(({TYPES[kind]}){text})", kind)
