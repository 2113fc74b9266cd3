"""Records of operations follow from their declared fields: layout, writing, what is read and written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from petabatch.geometry import Patches
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.fields import (
    CONSTANT,
    HEADER,
    MIRROR,
    ZERO,
    Buffers,
    Doubles,
    Floats,
    Key,
    Longs,
    Numbers,
    Source,
    Sources,
    encoded,
    fields_of,
)
from petabatch.variable import Border


class Numbered:
    """Tables that number arrays in the order in which they are asked for, from 1 on."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.sources: list[Source] = []

    def array(self, key: str) -> int:
        if key not in self.keys:
            self.keys.append(key)
        return 1 + self.keys.index(key)

    def summed(self, sources: Sequence[Source]) -> tuple[int, int]:
        first = len(self.sources)
        self.sources += sources
        return first, len(self.sources)

    def geometry(self, p: Patches) -> int:
        raise NotImplementedError

    def driven(self, drives: Sequence[Any]) -> tuple[int, int]:
        raise NotImplementedError


@dataclass(frozen=True)
class Every(Operation):
    """One field of many kinds."""

    inputs: Buffers
    source: Source
    name: str
    size: int
    whole: bool
    factor: float
    shape: tuple[int, int]
    border: Border
    numbers: Numbers
    weights: Floats = field(default="", kw_only=True)
    mine = Key(Longs, "own/{0.name}", only="whole")

    @property
    def scratch(self) -> Doubles:
        """An array whose key follows from another field."""
        return f"scratch/of {self.name}"

    @property
    def text(self) -> str:
        """For Python alone."""
        return self.name


def every(border: Border = "mirror", **keys: Any) -> Every:
    inputs = [[Source("a"), Source("b")], [], [Source("c")]]
    return Every("out", inputs, Source("in", 2), "me", 7, True, 0.5, (3, 4), border, (8.0, 9.0), **keys)


def test_every_field_of_a_known_type_has_its_own_place_and_others_have_none() -> None:
    fields = {one.name: one for one in fields_of(Every)}
    numbers = {"size", "whole", "factor", "shape", "border", "numbers"}
    assert set(fields) == {"out", "inputs", "source", "weights", "scratch", "mine"} | numbers
    taken = [n for one in fields.values() for n in range(one.column, one.column + one.kind.columns)]
    assert sorted(taken) == list(range(HEADER - 1, HEADER - 1 + len(taken)))
    assert fields["out"].column == HEADER - 1
    assert fields["inputs"].column == max(taken)  # it is as long as there are buffers
    assert fields["numbers"].number == max(one.number for one in fields.values())


def test_a_record_has_what_its_fields_say() -> None:
    to, place = Numbered(), {one.name: one for one in fields_of(Every)}
    columns, numbers = encoded(every(), to)

    def stored(name: str, count: int = 1) -> list[int]:
        return columns[place[name].column : place[name].column + count]

    assert stored("source", 2) == [to.array("in"), 2]
    assert stored("size") == [7]
    assert stored("whole") == [1]
    assert stored("shape", 2) == [3, 4]
    assert stored("weights") == [0]  # no array
    assert stored("scratch") == [to.array("scratch/of me")]
    assert columns[place["inputs"].column :] == [0, 2, 2, 3]
    assert [one.key for one in to.sources] == ["a", "b", "c"]
    assert numbers[place["factor"].number] == 0.5
    assert numbers[place["numbers"].number :] == [8.0, 9.0]
    assert encoded(every(weights="w"), to)[0][place["weights"].column] == to.array("w")


def test_an_array_whose_key_follows_from_other_fields_is_there_where_it_is_wanted() -> None:
    to, (place,) = Numbered(), (one for one in fields_of(Every) if one.name == "mine")
    one = every()
    assert one.mine == "own/me"
    assert encoded(one, to)[0][place.column] == to.array("own/me")
    assert replace(one, name="you").mine == "own/you"
    assert encoded(replace(one, whole=False), to)[0][place.column] == 0


@pytest.mark.parametrize(
    ("border", "code", "value"), [("zero", ZERO, 0.0), ("mirror", MIRROR, 0.0), (0.25, CONSTANT, 0.25)]
)
def test_a_border_is_its_rule_and_its_value(border: Border, code: int, value: float) -> None:
    (place,) = (one for one in fields_of(Every) if one.name == "border")
    columns, numbers = encoded(every(border), Numbered())
    assert (columns[place.column], numbers[place.number]) == (code, value)


@dataclass(frozen=True)
class Two(Operation):
    """Two arrays that are read, and sums."""

    first: Source
    second: Source
    sums: Sources = ()


def test_what_is_read_printed_and_told_in_profiles_follows_from_the_fields() -> None:
    one = Two("layers/V1/A", Source("layers/V2/A", 1), Source("scratch/x"), (Source("layers/V3/A", 0, -1),))
    assert [s.key for s in one.reads] == ["layers/V2/A", "scratch/x", "layers/V3/A"]
    assert one.writes == ("layers/V1/A",)
    assert one.label == "two V1"
    assert str(one) == "V1 = two of V2[-1], <x>, -V3"
