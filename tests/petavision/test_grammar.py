"""The grammar of PetaVision's parameter files, and where its errors are."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from petabatch.errors import ParamsError
from petabatch.petavision.grammar import parse
from support.fuzz_params import outcomes

PARAMS = Path(__file__).parent / "params"


def values(name: str, group: str) -> dict[str, object]:
    found = parse((PARAMS / f"{name}.params").read_text(), name)
    return {key: entry.value for key, entry in found.groups[group].entries.items()}


def test_every_kind_of_value() -> None:
    assert values("grammar", "column") == {"nx": 4, "ny": 4, "dt": 1, "stopTime": 3, "randomSeed": 12345678}
    found = values("grammar", "OnesToA")
    assert (found["sharedWeights"], found["delay"], found["weightInit"]) == (1, (0, 1), 0.25)
    assert values("grammar", "Ones")["InitVType"] == "ConstantV"
    assert values("grammar", "A")["triggerLayerName"] is None
    assert values("grammar", "A")["AMin"] == -math.inf


def test_an_include_is_copied_and_changed() -> None:
    found = values("grammar", "B")
    assert (found["VThresh"], found["AMin"], found["AMax"], found["AShift"]) == (1, 0, math.inf, 0.5)
    assert found["InitVType"] == "ZeroV"


def test_unknown_characters_are_ignored_and_told_of() -> None:
    found = parse((PARAMS / "grammar.params").read_text(), "grammar")
    ((character, place),) = found.ignored
    assert (character, place.line) == ("§", 9)


def test_a_dot_after_a_number_is_ignored_and_told_of() -> None:
    """As by PetaVision's scanner (`params.l`), which reads `0.0.` as 0.0, and `1.2.3` as two numbers."""
    found = parse('HyPerCol "a" = { nx = 0.5.; ny = 1.; dt = 2...; };', "x")
    assert [entry.value for entry in found.groups["a"].entries.values()] == [0.5, 1.0, 2.0]
    assert [(character, place.column) for character, place in found.ignored] == [
        (".", 26),
        (".", 45),
        (".", 46),
    ]
    with pytest.raises(ParamsError, match="column 23: this is not a value"):
        parse('HyPerCol "a" = { nx = 1.2.3; };', "x")


def test_sweeps() -> None:
    found = parse((PARAMS / "sweep.params").read_text(), "sweep")
    assert [entry.value for entry in found.sweeps["Out", "VThresh"]] == [0.5, 1.5, 0.75]


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ('HyPerCol "a" = {\n  nx 3;\n};', 2, 6, "expected: = after the name of a parameter"),
        ('HyPerCol "a" = {\n  nx = 3\n};', 3, 1, "expected: ; after the value"),
        ('HyPerCol "a" = {\n  nx = three;\n};', 2, 8, "this is not a value"),
        ('HyPerCol "a" = { nx = [1, [2]]; };', 1, 27, "this is not a value"),
        ('HyPerCol "a" = { nx = [1, "b"]; };', 1, 23, "this array is not one of numbers"),
        ('HyPerCol "a" = { nx = 3; nx = 4; };', 1, 26, "this parameter is given twice"),
        ('HyPerCol "a" = { nx = "b\n; };', 1, 23, "this text has no end"),
        ('HyPerCol "a" = { nx = 1;', 1, 25, "the end of the file"),
        ('A "a" = { b = 1; };\nA "a" = { };', 2, 3, "two groups have the same name"),
        ('A "a" = { b = 1; };\nB "b" = { #include "a"; };', 2, 20, "the included group is of another class"),
        ('B "b" = { #include "a"; };', 1, 20, "there is no group of this name before it"),
        ('A "a" = { b = 1; };\nA "c" = { #include "a"; @d = 2; };', 2, 26, "in no group that is included"),
        ('ParameterSweep "a":b = { };', 1, 1, "this sweep has no values"),
        (
            'ParameterSweep "a":b = { 1; 2; };\nParameterSweep "a":c = { 1; };',
            2,
            1,
            "different numbers of values",
        ),
        ("12e3", 1, 1, "a class of objects"),
        ('A "a" = { b = 12e3x; };', 1, 15, "this is not a value"),
    ],
)
def test_errors_have_line_and_column(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(ParamsError) as caught:
        parse(text, "net.params")
    (problem,) = caught.value.problems
    assert problem.line == line
    assert problem.message.startswith(f"column {column}: ")
    assert message in str(caught.value)


def test_damaged_files_are_read_or_refused() -> None:
    """The short form of `tests/support/fuzz_params.py`."""
    found = outcomes(range(300), PARAMS, ["params"])
    assert found.keys() == {"read", "refused"}
