"""The grammar of equations: what is accepted, what is refused and where, and that nothing is executed."""

from __future__ import annotations

import time
from dataclasses import fields

import numpy as np
import pytest

from petabatch.equations.arrays import evaluate
from petabatch.equations.blocks import read_equations, read_statements
from petabatch.equations.grammar import EquationError, parse
from petabatch.equations.read import Texts, WrongTexts, read_step
from support.fuzz_equations import Executed, outcomes, watching

VALUES = {"v": 0.7, "w": -1.3, "tau": 2.0}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(v + w) * tau - 3 / 2", (0.7 - 1.3) * 2 - 1.5),
        ("-v ** 2 + +w", -(0.7**2) - 1.3),
        ("2 ** -v", 2**-0.7),
        ("exp(v) if w < 0 <= v else 7", np.exp(0.7)),
        ("int(v > 0 and not w > 0 or tau == 3)", 1.0),
        ("clip(w, -1, 1) + min(v, w) + max(v, w)", -1 + 0.7 - 1.3),
        ("exprel(0) + exprel(v)", 1 + np.expm1(0.7) / 0.7),
        ("w % tau + sign(w) + floor(w) + ceil(w)", -1.3 % 2 - 1 - 2 - 1),
        ("sin(pi / 2) * sqrt(abs(w))\n + 1", np.sqrt(1.3) + 1),
    ],
)
def test_expressions_have_the_values_that_python_gives_them(text: str, value: float) -> None:
    assert evaluate(parse(text, VALUES), VALUES) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("dv/dt = (gee - v) / 20\ndge/dt = -ge", "line 1, column 10", "not defined", "ge?"),
        (
            "dv/dt = -v\n  # a comment\n  dw/dt = (v +\n   vv)",
            "line 4, column 4",
            "not defined",
            "v?",
        ),
        ("dv/dt = -v : volt", "line 1, column 14", "no such flag", "no units"),
        ("dv/dt = -v\ndw/dt = (v", "line 2, column 9", "not closed", ""),
        ("dv/dt = v)", "line 1, column 10", "closes none", ""),
        ("v' = 3", "line 1, column 1", "not an equation", "dv/dt"),
        ("dv/dt = v + * 2", "line 1, column 13", "not an expression", ""),
        ("dv/dt = v + 1/0", "line 1, column 13", "no finite number", ""),
        ("dv/dt = v * (5 % (2 - 2))", "line 1, column 14", "no finite number", ""),
        ("dv/dt = exp(1000) * v", "line 1, column 9", "no finite number", ""),
        ("dv/dt = 2 * v ** 99", "line 1, column 18", "exponent is too large", ""),
        ("dv/dt = v ^ 2", "line 1, column 9", "not allowed", "**"),
        ("dv/dt = v // 2", "line 1, column 9", "not allowed", "floor"),
        ("dv/dt = exp(v, 2)", "line 1, column 9", "other arguments", ""),
        ("dv/dt = expp(v)", "line 1, column 9", "no function", "exp?"),
        ("dv/dt = v(3)", "line 1, column 9", "no function", "*"),
        ("dv/dt = 1 + (v > 3)", "line 1, column 14", "a condition", "int"),
        ("dv/dt = v * 'a'", "line 1, column 13", "not a number", ""),
        ("dv/dt = 1e999", "line 1, column 9", "too large", ""),
        ("dv/dt = v \N{MULTIPLICATION SIGN} 2", "line 1, column 11", "character", ""),
        ("dv/dt = -v\n dv/dt = 3", "line 2, column 3", "given twice", ""),
        ("dexp/dt = 3", "line 1, column 2", "a meaning of its own", ""),
        ("dlambda/dt = 3", "line 1, column 2", "a meaning of its own", ""),
        ("dv/dt = a\na = b\nb = a", "line 2, column 4", "circle", ""),
        ("dv/dt = v.real", "line 1, column 9", "not allowed", ""),
        ("dv/dt = [v][0]", "line 1, column 9", "not allowed", ""),
        ("dv/dt = (v := 3)", "line 1, column 13", "no such flag", ""),
        ("dv/dt = __import__('os').system('false')", "line 1, column 9", "not allowed", ""),
        ("dv/dt = np.tanh(v)", "line 1, column 9", "not allowed", "no prefix: tanh(...)"),
        ("dv/dt = sigmoid(v)", "line 1, column 9", "no function", "1 / (1 + exp(-x))"),
        ("dv/dt = (v, 3)", "line 1, column 9", "not allowed", ""),
        ("dv/dt = (I - v) / 10", "line 1, column 10", "not defined", "`parameters`"),
        ("tau * dv/dt = -v", "line 1, column 1", "not an equation", "divide"),
        ("dv/dt = -v (unless refractory)", "line 1, column 12", "no colon before this flag", ""),
        ("dv/dt = -v unless refractory", "line 1, column 11", "no colon before this flag", ""),
        ("dv/dt = -v * refractory", "line 1, column 14", "cannot be used here", ": unless refractory"),
        ("dv/dt = w\nw = xi_1", "line 2, column 5", "cannot be used here", "white noise"),
        ("d" + "v" * 41 + "/dt = 3", "line 1, column 2", "too long", ""),
        ("dv/dt = -v; dw/dt = v", "line 1, column 11", "not an expression", "a line of its own"),
        ("dv/dt = " + "(" * 250 + "v" + ")" * 250, "line 1, column 9", "too large", "names"),
        ("dv/dt = " + "-" * 3000 + "v", "line 1, column 9", "", ""),
        ("dv/dt = " + " + ".join(["v"] * 500), "line 1, column 9", "too large", "names"),
        ("dv/dt = -v + x\nx = " + "9" * 6000, "line 2, column", "", ""),
        ("\n".join(["dv/dt = -v", *(f"x{n} = {n}" for n in range(70))]), "", "too many lines", ""),
        ("dv/dt = -v" + " " * 20_000, "", "too long", ""),
        ("", "", "no equations", ""),
    ],
)
def test_what_is_no_equation_is_refused_at_its_place(text: str, place: str, message: str, hint: str) -> None:
    began = time.perf_counter()
    with pytest.raises(EquationError) as found:
        read_equations(text, ())
    assert str(found.value).startswith(place)
    assert message in str(found.value)
    assert hint in found.value.hint
    assert time.perf_counter() - began < 2


def test_all_names_that_are_not_defined_are_told_at_once() -> None:
    with pytest.raises(EquationError) as found:
        read_equations("dv/dt = (I - v) / tau + sigma * xi\ndw/dt = (a*v - w) / tauw + s\ns = 2 * tau", ())
    first = found.value
    assert {one.found for one in (first, *first.others)} == {"I", "tau", "sigma", "a", "tauw"}
    assert all("not defined" in str(one) for one in (first, *first.others))
    assert all("in `parameters`" in one.hint for one in (first, *first.others) if "tau" in one.found)
    with pytest.raises(EquationError, match="not defined"):
        read_equations("dv/dt = (1 if foo else 2) * v", ())


@pytest.mark.parametrize("flag", ["unless refractory", "(unless refractory)", "( unless  refractory )"])
def test_the_flag_of_refractory_equations_may_stand_in_parentheses(flag: str) -> None:
    assert read_equations(f"dv/dt = -v / 10 : {flag}\ndw/dt = -w", ()).derivatives["v"].paused
    with pytest.raises(EquationError, match="no such flag"):
        read_equations("dv/dt = -v : (unless refractory", ())


def test_statements_of_a_reset_are_assignments_to_variables() -> None:
    found = read_statements("v = -60; w += 2 * tau\n w *= 3  # more", ("v", "w"), ("tau",))
    values = dict(VALUES)
    for name, value in found:
        values[name] = evaluate(value, values)
    assert values == {"v": -60, "w": pytest.approx((-1.3 + 4) * 3), "tau": 2}
    for text, place in (
        ("w = 3; vv = 2", "line 1, column 8"),
        ("v == 3", "line 1, column 1"),
        ("v = 3; w", "line 1"),
    ):
        with pytest.raises(EquationError) as error:
            read_statements(text, ("v", "w"), ())
        assert str(error.value).startswith(place)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(WrongTexts) as found:
        read_step(Texts("dv/dt = -v", spike="v > u", reset="w = 3", activity="v", started=("x",)))
    assert [key for key, _ in found.value.errors] == ["spike", "reset", "activity", "start"]


def test_names_that_other_texts_may_use_are_told_from_names_that_there_are_not() -> None:
    equations, wrong = "dv/dt = I + w\nw = 2 * I", []
    for texts in (
        Texts(equations, ("I",), spike="v > I", reset="v = w + I; v = xi"),
        Texts(equations, ("I",), activity="I + xi"),
    ):
        with pytest.raises(WrongTexts) as found:
            read_step(texts)
        wrong += [(key, one.found, one.hint) for key, one in found.value.errors]
        assert all("cannot be used here" in str(one) for _, one in found.value.errors)
    assert [one[:2] for one in wrong] == [
        *(("spike", "I"), ("reset", "w"), ("reset", "I")),
        *(("activity", "I"), ("activity", "xi")),
    ]
    for (*_, hint), words in zip(
        wrong, ("`currents`", "write it out", "`currents`", "w = I", "noise"), strict=True
    ):
        assert words in hint
    assert read_step(Texts(equations, ("I",), activity="w"))  # as the hint says


def test_a_text_is_quoted_as_it_was_written() -> None:
    for text, place in (("v, v", "line 1, column 1"), ("  v,\n v ", "line 1, column 3")):
        with pytest.raises(EquationError) as found:
            parse(text, VALUES)
        assert str(found.value).startswith(f"{place}:")
        assert found.value.found == text.strip()


@pytest.mark.parametrize("name", ["xi_k", "xi", "xi_1_a", "spikes", "history", "A", "refractory"])
@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("equations", Texts("dNAME/dt = 3")),
        ("equations", Texts("dv/dt = (NAME - v) / 4\nNAME = 3.0")),
        ("parameters", Texts("dv/dt = (NAME - v) / 4", parameters=("NAME",))),
        ("parameters", Texts("dv/dt = (NAME - v) / 4", units=("NAME",))),
        ("currents", Texts("dv/dt = (NAME - v) / 4", currents=("NAME",))),
    ],
)
def test_names_that_have_a_meaning_are_given_to_nothing_else(key: str, texts: Texts, name: str) -> None:
    given = {one.name: getattr(texts, one.name) for one in fields(texts)}
    named = {
        what: one.replace("NAME", name)
        if isinstance(one, str)
        else tuple(each.replace("NAME", name) for each in one)
        if isinstance(one, tuple)
        else one
        for what, one in given.items()
    }
    with pytest.raises(WrongTexts, match="a meaning of its own") as found:
        read_step(Texts(**named))
    assert found.value.errors[0][0] == key
    assert ("white noise" in found.value.errors[0][1].hint) == name.startswith("xi")


def test_random_texts_are_read_or_refused_in_time_and_never_executed() -> None:
    """A short form of `python tests/support/fuzz_equations.py --seconds 600`."""
    found, failed = outcomes(range(600))
    assert not failed, failed[0][1]
    assert found["refused"] > 100
    assert found.total() - found["refused"] > 100


def test_what_is_executed_while_texts_are_read_is_noticed() -> None:
    outcomes(range(1))
    with pytest.raises(Executed, match="exec"), watching():
        eval("1")
