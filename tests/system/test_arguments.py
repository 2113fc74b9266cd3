"""Arguments that a public function cannot use: each is answered by an error that names it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import plotting
from petabatch.arguments import checked
from petabatch.errors import ArgumentError
from support.mistaken_arguments import failures, public_calls, table_failures


@pytest.mark.long
def test_every_argument_of_every_public_function_is_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where files of the names that are tried are made
    calls = public_calls(tmp_path)
    assert [*failures(calls)] == []
    named = {one.name.partition(".")[0].partition("[")[0] for one in calls}
    functions = [name for name in petabatch.__all__ if inspect.isfunction(getattr(petabatch, name))]
    assert {*functions, "Simulator", "Results", "Series", "Part", "plotting", "in_memory"} <= named
    assert len([one for one in calls if one.name.startswith("plotting.")]) >= 15


def test_every_key_of_every_table_is_checked() -> None:
    assert [*table_failures()] == []


@checked("own")
def public(
    whole: int = 0,
    number: float = 0.0,
    flag: bool = False,
    names: Any = None,
    several: tuple[int, ...] | None = None,
    own: str = "",
) -> tuple[Any, ...]:
    return whole, number, flag, names, several, own


@pytest.mark.parametrize(
    "given",
    [
        {"whole": np.int64(3)},
        {"whole": np.array(3)},
        {"number": np.float32(3)},
        {"number": 3},
        {"flag": np.bool_(True)},
        {"several": [1, 2]},
        {"several": np.arange(3)},
        {"several": None},
        {"own": 7},
    ],
)
def test_values_of_the_annotated_types_are_taken_and_so_are_those_of_numpy(given: dict[str, Any]) -> None:
    assert public(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"whole": 2.5},
            "whole: the value has the wrong type\n    found:    2.5\n    expected: a whole number",
        ),
        ({"whole": True}, r"whole: (?s:.*)True"),
        ({"whole": "4"}, r"whole: (?s:.*)'4'"),
        ({"number": "4"}, r"number: (?s:.*)'4'(?s:.*)a number"),
        ({"flag": 1}, "flag: .*(?s:.*)True or False"),
        ({"several": [1, "a"]}, r"several: (?s:.*)\[1, 'a'\](?s:.*)a list, of a whole number each or None"),
        ({"several": "12"}, "several: "),
    ],
)
def test_others_are_refused_with_what_was_found_and_expected(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        public(**given)


def test_missing_and_unknown_arguments_are_python_errors() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        petabatch.load()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'thread'"):
        petabatch.run("a.toml", "out", thread=2)  # type: ignore[call-arg]
    for function in (petabatch.encode, petabatch.encode_stream):
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'lam': did you mean threshold\?"):
            function([], [], lam=0.5)


def test_signatures_are_those_of_the_functions() -> None:
    for function in (petabatch.run, petabatch.encode, petabatch.Simulator.show, plotting.finish):
        assert "args" not in inspect.signature(function).parameters
        assert function.__doc__
