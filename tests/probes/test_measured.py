"""Probes of plug-ins that return something else than their quantities: the error says what is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.errors import PartError
from petabatch.spec.parts import Probe, Reading
from petabatch.variable import Array
from support.swept_units import POINTS, swept

RETURNED: list[Any] = []


class Odd(Probe):
    """A probe that returns what a test says, of all slices together."""

    type: Literal["odd"] = "odd"

    @property
    def slicewise(self) -> bool:
        return True

    def layers(self) -> Sequence[str]:
        return ("units",)

    def quantities(self) -> Mapping[str, str]:
        return {"least": "of all units", "most": "of all units"}

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        assert read("units", "A").shape == (2, 1, 1, 6)
        found: Mapping[str, Array] = RETURNED[0]
        return found


def run() -> np.ndarray:
    """Run two slices that are recorded in one call; return what is recorded of `most`."""
    points = {path: values[:2] for path, values in POINTS.items()}
    network = swept(points).model_copy(update={"probes": {"seen": Odd(every=30)}})
    return in_memory.run(network, threads=1).recorded["probes/seen/most"]


TWO = np.array([1.0, 2.0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (None, "NoneType"),
        ([TWO, TWO], "list"),
        ({"least": TWO}, "no most"),
        ({}, "no least, most"),
        ({"least": TWO, "most": 3.0}, "most: float"),
        ({"least": TWO, "most": TWO.sum()}, "most: float64 []"),
        ({"least": TWO, "most": TWO[:1]}, "most: float64 [1]"),
        ({"least": np.ones((2, 1, 1, 3), "f"), "most": TWO}, "least: float32 [2, 1, 1, 3]"),
        ({"least": TWO, "most": 1j * TWO}, "most: complex128 [2]"),
        ({"least": TWO, "most": np.array(["a", "b"])}, "most: <U1 [2]"),
        ({"least": TWO, "most": {"a": 1}}, "most: dict"),
    ],
)
def test_what_is_no_measurement_is_an_error(returned: Any, found: str) -> None:
    RETURNED[:] = [returned]
    line = Odd.measure.__code__.co_firstlineno
    with pytest.raises(PartError) as error:
        run()
    assert str(error.value).startswith(
        f"{__file__}:{line}: probes.seen: `measure` of the plug-in type odd has not returned its quantities\n"
        f"    found:    {found}\n    expected: by name an array of 2 numbers, one of each slice: least, most"
    )


@pytest.mark.parametrize("most", [TWO, [1.0, 2.0], np.array([1, 2], np.int32), TWO.astype(np.float32)])
def test_numbers_of_each_slice_are_recorded(most: Any) -> None:
    RETURNED[:] = [{"least": TWO, "most": most, "more": "that is not asked for"}]
    assert run().tolist() == [[1.0, 2.0]]
