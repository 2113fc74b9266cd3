"""Malformed params files: every error in them, with line, key, what was found and the likely fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import SMALL, Command

from petabatch import simulation
from petabatch.errors import ParamsError
from petabatch.spec import toml
from petabatch.spec.load import resolved
from petabatch.spec.network import Network

# What is changed in a good file, and what must be said: (line content to find, words of the message).
CASES: dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]] = {
    "unknown key in run": ([("batch = 3", "bach = 3")], [("bach = 3", "did you mean batch?")]),
    "unknown key in a layer": ([("tau = 10.0", "taus = 10.0")], [("taus", "did you mean tau?")]),
    "unknown key in an inline table": (
        [('normalize = { type = "l2" }', 'normalize = { type = "l2", strenght = 2.0 }')],
        [("strenght", "did you mean strength?")],
    ),
    "unknown key in a learning rule": ([("momentum = 0.5", "momentun = 0.5")], [("momentun", "did you mean momentum?")]),
    "unknown key in output": ([('flush = "2 displays"', 'flsh = "2 displays"')], [("flsh", "did you mean flush?")]),
    "unknown table": ([("[checkpoint]", "[checkpoints]")], [("[checkpoints]", "did you mean checkpoint?")]),
    "unknown type": ([('type = "lca"', 'type = "lsa"')], [("[layers.V1]", 'did you mean lca?')]),
    "type missing": ([('type = "lca"\n', "")], [("[layers.V1]", "the `type` of this layer is missing")]),
    "not a table": ([('normalize = { type = "l2" }', 'normalize = "l2"')], [('normalize = "l2"', "table")]),
    "wrong type": ([("batch = 3", 'batch = "three"')], [("batch", "expected: a whole number")]),
    "text for a number": ([("tau = 10.0", 'tau = "slow"')], [("tau", "expected: a number")]),
    "a fraction for a count": ([("display = 10", "display = 10.5")], [("display = 10.5", "a whole number")]),
    "out of range": ([("tau = 10.0", "tau = -1.0")], [("tau", "larger than 0")]),
    "zero slices": ([("batch = 3", "batch = 0")], [("batch", "at least 1")]),
    "not finite": ([("threshold = 0.3", "threshold = nan")], [("threshold", "out of range")]),
    "a choice that is none": (
        [('channel = "inh"', 'channel = "inh"\nstrength = 2\nborder = 1')],
        [("border = 1", "there is no such key")],
    ),
    "shape too short": ([("shape = [6, 6, 8]", "shape = [6, 6]")], [("shape = [6, 6]", "too short")]),
    "shape too long": ([("shape = [6, 6, 8]", "shape = [6, 6, 8, 1]")], [("shape = [6", "wrong length")]),
    "no length": ([("displays = 6\n", "")], [("[run]", "the length of the run is missing")]),
    "two lengths": ([("displays = 6", "displays = 6\nsteps = 3")], [("[run]", "given twice")]),
    "a schedule that is none": ([("every = 5", 'every = "5 setps"')], [("setps", "this is not a schedule")]),
    "required key missing": ([("patch = [4, 4]\n", "")], [("[connections.dictionary]", "this key is missing")]),
    "syntax": ([("shape = [6, 6, 8]", "shape = [6, 6, 8")], [("", "not valid TOML")]),
    "key twice": ([("tau = 10.0", "tau = 10.0\ntau = 11.0")], [("tau = 11.0", "not valid TOML")]),
    "dangling layer": ([('pre = "V1"', 'pre = "V2"')], [('pre = "V2"', "did you mean V1?")]),
    "dangling layer of a probe": ([('code = "V1"', 'code = "v1"')], [("[probes.energy]", "did you mean V1?")]),
    "dangling output": ([("recon = {", "recom = {")], [("recom", "did you mean recon?")]),
    "unknown variable": ([('["A", "V"]', '["A", "U"]')], [("variables", "no variable")]),
    "dangling weights": ([('of = "dictionary"', 'of = "dict"')], [("of", "did you mean dictionary?")]),
    "unknown channel": ([('channel = "inh"', 'channel = "in"')], [("channel", "did you mean inh?")]),
    "patch too large": ([("patch = [4, 4]", "patch = [4, 14]")], [("patch", "does not fit on a layer of 12")]),
    "sizes without a ratio": ([("shape = [6, 6, 8]", "shape = [5, 6, 8]")], [("[connections.dictionary]", "whole")]),
    "shapes that disagree": (
        [('[layers.recon]\ntype = "linear"\nshape = [12, 12, 3]', '[layers.recon]\ntype = "linear"\nshape = [12, 12, 1]')],
        [("[connections.recon_to_error]", "different shapes"), ("error = \"error\", rate", "not shaped like")],
    ),
    "a cycle": ([("feedback = true\n", "")], [("[connections.", "set feedback = true")]),
    "several at once": (
        [("batch = 3", "bach = 3"), ("tau = 10.0", "tau = -1"), ('pre = "image"', 'pre = "imag"')],
        [("bach", "did you mean batch?"), ("tau", "larger than 0"), ('pre = "imag"', "did you mean image?")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_malformed_file_gives_line_and_hint(case: str, tmp_path: Path) -> None:
    changes, expected = CASES[case]
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ParamsError) as caught:
        simulation.plan(simulation.read(file))
    report = str(caught.value)
    for content, words in expected:
        assert words in report, report
        lines = [
            n for n, line in enumerate(text.splitlines(), 1) if line.startswith(content) or content in line
        ]
        assert any(f"{file}:{line}: " in report for line in lines), f"{lines} not in\n{report}"
    assert "Traceback" not in report
    assert "pydantic" not in report


def test_exit_2_and_no_directory_left_behind(small: Path, petabatch: Command) -> None:
    small.write_text(small.read_text().replace("batch = 3", "bach = 3"))
    failed = petabatch("run", small, "--out", "out")
    assert failed.returncode == 2
    assert "small.toml:3: run.bach" in failed.stderr
    assert not (small.parent / "out").exists()
    missing = petabatch("run", "smal.toml")
    assert missing.returncode == 2
    assert "did you mean small.toml?" in missing.stderr


def test_a_plug_in_that_fails_is_reported_with_the_rest(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import no_such_module")
    file = tmp_path / "bad.toml"
    file.write_text('plugins = ["broken.py"]\n' + SMALL.replace("tau = 10.0", "taus = 10.0"))
    with pytest.raises(ParamsError) as caught:
        simulation.read(file)
    assert "bad.toml:1: plugins: a plug-in cannot be imported: ModuleNotFoundError" in str(caught.value)
    assert "did you mean tau?" in str(caught.value)


def test_positions_of_keys_in_every_form_toml_has() -> None:
    text = (
        "# comment [x]\n"
        'a = "# [not.a.table]"\n'
        "[layers.V1] # [y]\n"
        "shape = [1,\n  2, # three\n  3]\n"
        'source = { type = "a = b", inner = { k = 1 } }\n'
        "x.y.z = 1\n"
        "\"quoted.key\" = '''\n[fake]\nq = 1\n'''\n"
        "[[runs]]\nn = 1\n[[runs]]\nn = 2\n"
    )
    lines = toml.positions(text)
    expected: dict[tuple[str, ...], int] = {
        ("a",): 2,
        ("layers", "V1"): 3,
        ("layers", "V1", "shape"): 4,
        ("layers", "V1", "source", "inner", "k"): 7,
        ("layers", "V1", "x", "y", "z"): 8,
        ("layers", "V1", "quoted.key"): 9,
        ("runs", "0", "n"): 14,
        ("runs", "1", "n"): 16,
    }
    assert {path: lines[path] for path in expected} == expected
    assert ("fake",) not in lines


def test_a_resolved_network_reads_back_as_itself(small: Path) -> None:
    network = simulation.read(small).network
    plain: Any = resolved(network)
    assert Network.model_validate(plain) == network
    assert plain["layers"]["V1"]["self_interact"] is True
