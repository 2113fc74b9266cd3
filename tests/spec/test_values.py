"""Wrong tables of values per slice, over time and of sweeps: each is an error with its line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from petabatch import simulation
from petabatch.errors import ParamsError, Problem, TableError
from petabatch.spec.network import Network
from petabatch.spec.override import swept
from petabatch.spec.sweep import Sweep
from support.commands import SMALL

LINE = "threshold = 0.3"
EMPTY = "expected at least one value, found none"
MISTAKES = {
    # values per slice
    "threshold = { slices = [0.3, 0.4] }": ("layers.V1.threshold", "one value for each slice", "2 values"),
    'threshold = { slices = [0.3, 0.4, "a"] }': ("layers.V1.threshold", "value 2 (from 0) of", "'a'"),
    "threshold = { slices = [] }": ("layers.V1.threshold", EMPTY, ""),
    "threshold = { slices = [0.3, nan, 0.4] }": ("layers.V1.threshold", "value 1 (from 0) of", "nan"),
    "tau = { slices = [1, 2, 0] }": ("layers.V1.tau", "value 2 (from 0): ", "0"),
    "treshold = { slices = [0.3, 0.4, 0.5] }": ("layers.V1.treshold", "there is no such key", "treshold"),
    "every = { slices = [1, 2, 3] }": ("layers.V1.every", "this cannot differ among slices", "every"),
    # values over time
    "threshold = { at = [1, 2], values = [0.3] }": ("layers.V1.threshold", "one value for each time", "2 "),
    "threshold = { at = [2, 1], values = [0.3, 1] }": ("layers.V1.threshold", "do not ascend", "2, 1"),
    "threshold = { at = [0], values = [0.3] }": ("layers.V1.threshold.at", "value 0 (from 0) of", "0"),
    "threshold = { at = [], values = [1] }": ("layers.V1.threshold.at", EMPTY, ""),
    "threshold = { at = [1], values = [inf] }": ("layers.V1.threshold.values", "value 0 (from 0) of", "inf"),
    "threshold = { at = [1], values = [1], bye = 1 }": ("layers.V1.threshold.bye", "no such key", "bye"),
    'threshold = { at = [1], values = [1], by = "days" }': ("layers.V1.threshold.by", "not one of", "'days'"),
    # sweeps
    "sweep threshold = [0.3, 0.4, true]": ("sweep.layers.V1.threshold", "value 2 (from 0) of", "True"),
    "sweep threshold = []": ("sweep.layers.V1.threshold", EMPTY, ""),
    "sweep threshold = [0.3, nan]": ("sweep.layers.V1.threshold", "value 1 (from 0) of", "nan"),
    "sweep threshold = 0.3": ("sweep.layers.V1.threshold", "the value has the wrong type", "0.3"),
    "sweep treshold = [0.3]": ("sweep.layers.V1.treshold", "there is no such key", "treshold"),
    "sweep shape = [1, 2]": ("sweep.layers.V1.shape", "this cannot differ", "shape"),
    "sweep threshold = { start = 0, stop = 1, count = 3, spacing = 'log' }": (
        "sweep.layers.V1.threshold", "cannot include 0", "from 0 to 1",
    ),
    "sweep threshold = { start = 0, stop = 1, count = 2_000_000 }": (
        "sweep.layers.V1.threshold.count", "out of range", "2000000",
    ),
    "sweep threshold = { start = 0, stop = 1 }": ("sweep.layers.V1.threshold.count", "missing", ""),
}  # fmt: skip


def problems(folder: Path, text: str) -> list[Problem]:
    """Return what is wrong with a params file."""
    file = folder / "small.toml"
    file.write_text(text)
    with pytest.raises(ParamsError) as raised:
        simulation.plan(simulation.read(file))
    return list(raised.value.problems)


@pytest.mark.parametrize("line", MISTAKES)
def test_a_wrong_table_is_an_error_of_its_key_and_line(tmp_path: Path, line: str) -> None:
    key, message, found = MISTAKES[line]
    text = SMALL.replace("learn = {", 'mode = "shared"\nlearn = {')
    if line.startswith("sweep "):
        written = line.replace("sweep ", "layers.V1.")
        text += f"\n[sweep]\n{written}\n"
    else:
        replaced = text.replace("tau = 10.0\n", "") if "tau" in line else text
        text = replaced.replace(LINE, line if "threshold" in line else f"{LINE}\n{line}")
        written = line.splitlines()[-1]
    (problem,) = problems(tmp_path, text)
    assert problem.key == key
    assert message in problem.message
    assert found in problem.found
    assert text.splitlines()[(problem.line or 0) - 1] == written


def test_an_empty_sweep_or_list_is_one_error(tmp_path: Path) -> None:
    text = SMALL.replace(LINE, "threshold = { slices = [] }")
    line = text.splitlines().index("threshold = { slices = [] }") + 1
    (problem,) = problems(tmp_path, text)
    assert problem.render("small.toml") == f"small.toml:{line}: layers.V1.threshold: {EMPTY}"
    for empty in ("", 'combine = "zip"\n'):
        (problem,) = problems(tmp_path, f"{SMALL}\n[sweep]\n{empty}")
        begin = f"small.toml:{len(SMALL.splitlines()) + 2}: sweep: there is nothing to sweep\n    expected:"
        assert problem.render("small.toml").startswith(begin)


def test_unknown_keys_of_a_sweep_and_zips_of_unequal_lengths(tmp_path: Path) -> None:
    text = SMALL.replace("learn = {", 'mode = "shared"\nlearn = {')
    (problem,) = problems(tmp_path, f'{text}\n[sweep]\ncombin = "zip"\nrun.seed = [1, 2]\n')
    assert (problem.key, problem.hint) == ("sweep.combin", "did you mean combine?")
    (problem,) = problems(tmp_path, f"{text}\n[sweep]\nthreshold = [0.1, 0.2]\n")
    assert problem.key == "sweep.threshold"
    zipped = '[sweep]\ncombine = "zip"\nrun.seed = [1, 2]\nlayers.V1.tau = [1, 2, 3]\n'
    (problem,) = problems(tmp_path, f"{text}\n{zipped}")
    assert problem.key == "sweep"
    assert problem.found == "run.seed: 2, layers.V1.tau: 3"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["layers.V1.threshold"], "this is not a sweep"),
        (["V1.threshold=0.4,0.5"], "this is not a sweep"),
        (["layers.V1.threshold=0.4,,0.5"], "this is not a sweep"),
        (["layers.V1.threshold=low,high"], "this is not a sweep"),
        (["layers.V1.threshold=0.4", "layers.V1.threshold=0.5"], "this key is swept twice"),
    ],
)
def test_a_sweep_on_the_command_line_has_a_key_and_numbers(given: list[str], said: str) -> None:
    with pytest.raises(ParamsError, match=f"{said}[^$]*--sweep"):
        swept(given)


def test_sweeps_on_the_command_line_are_overrides() -> None:
    given = ["layers.V1.threshold=0.4,0.5", "run.seed={start=1, stop=4, count=4}"]
    assert swept(given) == [
        "sweep.layers.V1.threshold=[0.4,0.5]",
        "sweep.run.seed={start=1, stop=4, count=4}",
    ]


@pytest.mark.parametrize("name", ["at", "slices"])
def test_parts_may_have_the_names_of_keys_of_values(name: str) -> None:
    table = {"type": "constant", "shape": [1, 1, 1], "value": {"at": [1, 2], "values": [1.0, 2.0]}}
    network = Network.model_validate({"run": {"steps": 2}, "layers": {name: table}})
    assert list(network.over_time) == [f"layers.{name}.value"]


def test_a_key_that_is_swept_twice_is_an_error() -> None:
    values = {"layers": {"V1": {"threshold": [0.3, 0.4]}}, "layers.V1.threshold": [0.5]}
    with pytest.raises(TableError, match="this key is given twice"):
        Sweep(**values)


def test_values_per_slice_may_be_nested_as_those_of_a_sweep(tmp_path: Path) -> None:
    file, path = tmp_path / "net.toml", "layers.V1.threshold"
    for text in ("[slices.layers.V1]\nthreshold", f"[slices]\n{path}", f'[slices]\n"{path}"'):
        file.write_text(f"{text} = [0.1, 0.2, 0.3]\n{SMALL}")
        assert simulation.read(file).network.slices == {path: (0.1, 0.2, 0.3)}
