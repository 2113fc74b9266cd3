"""Derived steps that a run stores: they are what was derived, and resuming derives nothing again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import simulation
from petabatch.equations import read
from petabatch.equations.read import Texts, read_step
from petabatch.equations.source import row_source
from petabatch.equations.stored import NotAStep, step_of, stored_step
from petabatch.errors import DamagedError, StoppedEarly
from petabatch.session import RunSession
from support.sealing import reseal

TEXTS = (
    Texts(
        "dv/dt = (g - v + I) / tau : unless refractory\ndg/dt = -g / 5 + s * xi\ns = tau / 3",
        ("I",), ("tau",), (), "v > 1 and not g < -2", "v = 0; g += 0.5 * dt", True, None, "exact",
    ),
    Texts("dv/dt = g * (3 - v) - v / tau\ndg/dt = -g / each + 0.1", (), ("tau",), ("each",)),
    Texts("dx/dt = -x * (1 if x > 0.5 else tanh(t)) + x * xi_1 + xi_2", activity="clip(x, 0, 1) * pi"),
    Texts("dx/dt = -x ** 3 + sin(t) * xi", method="rk4"),
)  # fmt: skip


@pytest.mark.parametrize("texts", TEXTS, ids=lambda texts: read_step(texts).choice.method)
def test_a_stored_step_is_the_step_that_was_derived(texts: Texts) -> None:
    step = read_step(texts)
    data = json.loads(json.dumps(stored_step(texts, step, "def row(): ...\n")))
    known, found = step_of(data)
    assert known == texts
    assert found == step
    values, state = {"tau": 7.0}, [*step.state]
    assert found.numbers(values, 0.1, 2.0) == step.numbers(values, 0.1, 2.0)
    sources = [row_source(one, ["dt"], state, [], one.noises) for one in (found, step)]
    assert sources[0] == sources[1]


@pytest.mark.parametrize(
    "wrong",
    [
        "__import__('os').system('true')", "x); import os; (x", "1e999", True, ["open", "x"], ["sin"],
        ["+", "x"], ["sin", ["system", "x"]], {"x": 1}, None, "x.y", "_p", "", [],
    ],
)  # fmt: skip
def test_a_file_with_anything_but_expressions_is_refused(wrong: object) -> None:
    data: Any = stored_step(TEXTS[1], read_step(TEXTS[1]), "")
    for place in ("lines", "definitions", "seen", "prepared"):
        damaged = copy.deepcopy(data)
        match place:
            case "lines":
                damaged["lines"][0][1] = wrong
            case "definitions":
                damaged["definitions"]["x"] = wrong
            case "seen":
                damaged["seen"] = wrong
            case "prepared":
                damaged["prepared"] = [{"relaxation": "v", "rate": wrong, "rest": None}]
        with pytest.raises(NotAStep):
            step_of(damaged)


PARAMS = """
[run]
steps = 40
display = 10
dt = 0.5
batch = 2

[layers.n]
type = "neurons"
shape = [1, 1, 6]
equations = "dv/dt = (I - v) / tau : unless refractory\\ndw/dt = -w / 5 + 0.3 * xi"
parameters = { I = { slices = [1.2, 2.0] }, tau = { at = [1, 21], values = [4.0, 6.0] } }
spike = "v > 1"
reset = "v = 0"
refractory = 1.0
method = "exact"
start = { v = { type = "uniform" } }

[layers.plain]
type = "poisson"
shape = [1, 1, 6]
rate = 0.1

[output]
flush = "display"

[output.layers.n]
every = 1
variables = ["A", "v", "w"]
"""


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Return a function that makes a run and stops it at its first flush."""

    def run() -> Path:
        (tmp_path / "net.toml").write_text(PARAMS)
        with monkeypatch.context() as patched:
            patched.setattr(RunSession, "_out_of_time", lambda self: True)
            with pytest.raises(StoppedEarly):
                simulation.run(tmp_path / "net.toml", tmp_path / "run", quiet=True)
        return tmp_path / "run"

    return run


def test_a_run_that_is_resumed_derives_nothing_again(
    stopped: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stopped()
    stored = json.loads((folder / "equations.json").read_text())
    assert stored["layers"].keys() == {"n"}
    assert "def row" in stored["layers"]["n"]["source"][0]
    with simulation.run(tmp_path / "net.toml", tmp_path / "whole", quiet=True) as run:
        whole = {name: run[name][...] for name in run}
    read.read_step.cache_clear()

    def derived(*_: object) -> None:
        raise AssertionError("equations were derived again")

    for name in ("read_equations", "make_step", "parse"):
        monkeypatch.setattr(read, name, derived)
    monkeypatch.setattr("petabatch.equations.system.linear", derived)
    with petabatch.resume(folder, quiet=True) as run:
        assert run.status == "done"
        for name, values in whole.items():
            np.testing.assert_array_equal(run[name][...], values, err_msg=name)


def test_a_stored_step_is_followed(stopped: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored is what is made, whatever this version would derive."""
    folder = stopped()
    file = folder / "equations.json"
    stored = json.loads(file.read_text())
    (line,) = (one for one in stored["layers"]["n"]["lines"] if one[0].startswith("spikes"))
    line[1] = [">", -1.0, 1.0]
    file.write_text(json.dumps(stored))
    with pytest.raises(DamagedError, match=r"equations\.json"):
        petabatch.resume(folder, quiet=True)
    reseal(file)
    with petabatch.resume(folder, quiet=True) as run:
        assert run.layer("n")[...].any()
