"""Malformed params files: every error in them, with line, key, what was found and the likely fix."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from petabatch import simulation
from petabatch.cli import main
from petabatch.engine.split import Portion
from petabatch.errors import ParamsError
from petabatch.layers import Linear
from petabatch.spec import toml
from petabatch.spec.load import Loaded, load, parse, resolved
from petabatch.spec.model import Part
from petabatch.spec.network import Network
from petabatch.spec.parts import Layer
from petabatch.spec.schedule import DISPLAY, NEVER, STEP, Every
from petabatch.spec.schema import json_schema
from petabatch.spec.weights import Initial
from support.commands import SMALL, Command

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
    "unknown type": ([('type = "lca"', 'type = "lsa"')], [('type = "lsa"', "did you mean lca?")]),
    "a misspelt type, and the keys beside it": (
        [('type = "lca"', 'type = "lac"'), ("tau = 10.0", "tua = 10.0"), ("threshold = 0.3", "threshold = 'x'")],
        [('type = "lac"', "did you mean lca?"), ("tua", "did you mean tau?"), ("threshold = 'x'", "a number")],
    ),
    "a misspelt type in an inline table": (
        [('normalize = { type = "l2" }', 'normalize = { type = "l22", strenght = 2.0 }')],
        [('type = "l22"', "did you mean l2?"), ("strenght", "did you mean strength?")],
    ),
    "type missing": ([('type = "lca"\n', "")], [("[layers.V1]", "the `type` of this layer is missing")]),
    "a number for an initialiser": (
        [('init = { type = "gaussian" }', "init = 0.5")],
        [("init = 0.5", '{ type = "constant", value = 0.5 }')],
    ),
    "a file for an initialiser": (
        [('init = { type = "gaussian" }', 'init = "w.npy"')],
        [("init = ", '{ type = "file", path = "w.npy" }')],
    ),
    "a number with a unit": ([("tau = 10.0", 'tau = "10 ms"')], [("tau", "numbers have no units here")]),
    "a number for both sides": ([("patch = [4, 4]", "patch = 4")], [("patch = 4", "[4, 4]")]),
    "a schedule of epochs": ([("every = 5", 'every = "2 epochs"')], [("every", 'did you mean "displays"?')]),
    "random values by a function": (
        [("tau = 10.0", 'tau = 10.0\nstart = { V = "np.random.randn()" }')], [("start", 'type = "gaussian"')],
    ),
    "a number for a table": ([("batch = 3", "batch = 3\nuntil = 0.01")], [("until = 0.01", "{ gap = 0.01 }")]),
    "what a wrong initialiser hides": (
        [('init = { type = "gaussian" }', "init = 0.5"), ('pre = "V1"', 'pre = "V2"')],
        [("init = 0.5", "an initialiser table"), ('pre = "V2"', "did you mean V1?")],
    ),
    "not a table": ([('normalize = { type = "l2" }', 'normalize = "l2"')], [('normalize = "l2"', '{ type = "l2" }')]),
    "a number in quotes": ([("batch = 3", 'batch = "3"')], [("batch", "expected: a whole number")]),
    "a word for a flag": ([("feedback = true", 'feedback = "yes"')], [("feedback", "true or false")]),
    "a name with a slash": ([("[probes.energy]", '[probes."a/b"]')], [("[probes.", "this name cannot be used")]),
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
    "a way to sum that was removed": (
        [("batch = 3", 'batch = 3\nreduce = "fast"')],
        [('reduce = "fast"', "hint:     \"fast\" was removed: use \"exact\"")],
    ),
    "shape too short": ([("shape = [6, 6, 8]", "shape = [6, 6]")], [("shape = [6, 6]", "too short")]),
    "shape too long": ([("shape = [6, 6, 8]", "shape = [6, 6, 8, 1]")], [("shape = [6", "wrong length")]),
    "no length": ([("displays = 6\n", "")], [("[run]", "the length of the run is missing")]),
    "two lengths": ([("displays = 6", "displays = 6\nsteps = 3")], [("[run]", "given twice")]),
    "a schedule that is none": ([("every = 5", 'every = "5 setps"')], [("setps", "this is not a schedule")]),
    "required key missing": ([("patch = [4, 4]\n", "")], [("[connections.dictionary]", "this key is missing")]),
    "syntax": ([("channel = \"inh\"", "channel = inh")], [("channel = inh", "a string needs quotes")]),
    "array without end": ([("shape = [6, 6, 8]", "shape = [6, 6, 8")], [("shape = [6, 6, 8", "values are separated by commas")]),
    "key twice": ([("tau = 10.0", "tau = 10.0\ntau = 11.0")], [("tau = 11.0", "a key can be set only once")]),
    "a layer that is a number": ([("[layers.recon]", "[layers]\nrecom = 3\n[layers.recon]")], [("recom", "a layer table")]),
    "layers that are a number": ([("[run]", "probes = 3\n[run]"), ("[probes.energy]", "[probe.energy]")], [("probes = 3", "a table"), ("[probe.energy]", "did you mean probes?")]),
    "one element of the wrong type": (
        [("shape = [6, 6, 8]", 'shape = [6, "six", 0]')],
        [("shape = [6", "value 1 (from 0) of the array has the wrong type"), ("shape = [6", "value 2 (from 0) of the array is out of range")],
    ),
    "neither a choice nor a number": (
        [("tau = 10.0", 'tau = 10.0\nborder = "miror"')],
        [("border", "zero, mirror, image or a number"), ("border", "did you mean mirror?")],
    ),
    "a choice in a nested table": (
        [('error = "error", rate', 'average = "slice", error = "error", rate')],
        [("average", "did you mean slices?")],
    ),
    "missing key tells what it is": (
        [("[layers.V1]\ntype = \"lca\"\nshape = [6, 6, 8]", "[layers.V1]\ntype = \"lca\"")],
        [("[layers.V1]", "an array of 3 values: rows, columns, features")],
    ),
    "name with a dot": (
        [("[layers.recon]", '[layers."re.con"]\ntype = "linear"\nshape = 3\n[layers.recon]')],
        [("shape = 3", "an array of 3 values")],
    ),
    "dangling layer": ([('pre = "V1"', 'pre = "V2"')], [('pre = "V2"', "did you mean V1?")]),
    "dangling layer of a probe": ([('code = "V1"', 'code = "v1"')], [("[probes.energy]", "did you mean V1?")]),
    "dangling output": ([("recon = {", "recom = {")], [("recom", "did you mean recon?")]),
    "unknown variable": ([('["A", "V"]', '["A", "U"]')], [("variables", "no variable")]),
    "dangling weights": ([('of = "dictionary"', 'of = "dict"')], [("of", "did you mean dictionary?")]),
    "unknown channel": ([('channel = "inh"', 'channel = "in"')], [("channel", "did you mean inh?")]),
    "patch too large": ([("patch = [4, 4]", "patch = [4, 24]")], [("patch", "does not fit on a layer of 12")]),
    "sizes without a ratio": ([("shape = [6, 6, 8]", "shape = [5, 6, 8]")], [("[connections.dictionary]", "whole")]),
    "shapes that disagree": (
        [('[layers.recon]\ntype = "linear"\nshape = [12, 12, 3]', '[layers.recon]\ntype = "linear"\nshape = [12, 12, 1]')],
        [("[connections.recon_to_error]", "different shapes"), ("error = \"error\", rate", "does not have the shape of the post layer")],
    ),
    "a cycle": ([("feedback = true\n", "")], [("[connections.", "set feedback = true")]),
    "several at once": (
        [("batch = 3", "bach = 3"), ("tau = 10.0", "tau = -1"), ('pre = "image"', 'pre = "imag"')],
        [("bach", "did you mean batch?"), ("tau", "larger than 0"), ('pre = "imag"', "did you mean image?")],
    ),
}  # fmt: skip


@pytest.mark.sampled(17)
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


def report(text: str, tmp_path: Path, *overrides: str) -> str:
    """Return what is said of a params file named `bad.toml` in this folder."""
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ParamsError) as caught:
        load(file, overrides)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_problems_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = SMALL.replace('every = "1 display"', "keep = 0").replace("batch = 3", "bach = 3")
    said = report(text.replace("tau = 10.0", "tau = -1.0"), tmp_path)
    lines = [int(line.split(":")[1]) for line in said.splitlines() if line.startswith("bad.toml:")]
    assert len(lines) == 3
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("layers.V1.treshold=0.3", "no such key (set by -s layers.V1.treshold=0.3)|did you mean threshold?"),
        ("layers.v1.threshold=0.3", "there is no layer of this name (set by|did you mean V1?"),
        ("layrs.V1.threshold=0.3", "layrs: there is no such key (set by|did you mean layers?"),
        ("steps=3", "steps: there is no such key (set by -s steps=3)|did you mean run.steps?"),
        ("displays=3", "displays: there is no such key (set by|did you mean run.displays?"),
        ("threshold=0.3", "threshold: there is no such key (set by|did you mean layers.V1.threshold?"),
        ("layers.V1.tau=fast", "the value has the wrong type (set by|'fast'|a number"),
        ("layers.V1.tau.x=1", "layers.V1.tau is not a table (set by"),
        ("layers.V1.type=lsa", "(set by -s layers.V1.type=lsa)|did you mean lca?"),
        ("output.layers.V1.evry=5", "(set by -s output.layers.V1.evry=5)|did you mean every?"),
        ("layers.V1.tau", "this is not an override|key=value"),
        ("layers..tau=1", "this is not an override|key=value"),
    ],
)
def test_a_bad_override_is_named_instead_of_a_line(override: str, said: str, tmp_path: Path) -> None:
    found = report(SMALL, tmp_path, override)
    assert found.startswith("bad.toml: ")
    for words in said.split("|"):
        assert words in found


def test_an_override_is_not_blamed_for_another_key_of_similar_name(tmp_path: Path) -> None:
    found = report(SMALL.replace("tau = 10.0", "taus = 10.0"), tmp_path, "layers.V1.tau=20", "run.bach=1")
    assert "taus: there is no such key\n" in found
    assert "run.bach: there is no such key (set by -s run.bach=1)" in found


def test_overrides_are_toml_values_or_bare_strings_and_may_begin_tables(tmp_path: Path) -> None:
    network = parse(
        SMALL,
        overrides=[
            "run.precision=float64",
            "layers.V1.shape=[3, 3, 2]",
            'layers."V1".tau=3',
            "connections.dictionary.learn.rate=0.25",
            'connections.dictionary.init={ type = "uniform" }',
            "output.layers.error.every=2 displays",
        ],
    ).network
    assert network.run.precision == "float64"
    assert network.layers["V1"].shape == (3, 3, 2)
    plain = resolved(network)
    assert plain["layers"]["V1"]["tau"] == 3.0
    assert plain["connections"]["dictionary"]["learn"]["rate"] == 0.25
    assert plain["connections"]["dictionary"]["init"]["type"] == "uniform"
    assert plain["output"]["layers"]["error"]["every"] == "2 displays"


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_bytes(b"title = '\xff\xfe'")
    (tmp_path / "good.toml").write_text(SMALL)
    (tmp_path / "pyproject.toml").write_text("[project]")
    for name, said in {
        "nat.toml": "there is no such file|did you mean",
        "net.toml": "not a text file in UTF-8",
        "": "this is a directory|it contains good.toml",
        "nowhere/net.toml": "there is no such file",
    }.items():
        with pytest.raises(ParamsError) as caught:
            load(tmp_path / name)
        for words in said.split("|"):
            assert words in str(caught.value).replace(f"{tmp_path}/", "")


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "net.toml").write_text(SMALL, encoding="utf-8-sig")
    assert load(tmp_path / "net.toml").network.run.batch == 3


LAYER = """
from typing import Literal
from petabatch.layers import Linear

class Doubled(Linear):
    "A layer for tests."
    type: Literal["test_params_doubled"] = "test_params_doubled"
    gain: float = 2.0
"""


def test_a_plug_in_next_to_the_file_makes_its_types_known(tmp_path: Path) -> None:
    (tmp_path / "doubled.py").write_text(LAYER)
    text = 'plugins = ["doubled.py"]\n' + SMALL.replace('"linear"', '"test_params_doubled"', 1)
    (tmp_path / "net.toml").write_text(text)
    loaded = load(tmp_path / "net.toml")
    again = load(tmp_path / "net.toml")
    assert type(loaded.network.layers["error"]) is type(again.network.layers["error"])
    assert loaded.network.plugins == (str(tmp_path / "doubled.py"),)
    elsewhere = Loaded.from_json(json.dumps(resolved(loaded.network)), "elsewhere/resolved.json")
    assert elsewhere.network == loaded.network
    assert "did you mean gain?" in report(text.replace("shape", "gian = 1\nshape", 2), tmp_path)


def test_code_outside_of_the_current_directory_is_executed_only_if_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    theirs.mkdir()
    mine.mkdir()
    executed = tmp_path / "executed"
    mark = f"open({str(executed)!r}, 'w').close()\n"
    (theirs / "theirs.py").write_text(mark + LAYER.replace("doubled", "theirs"))
    text = SMALL.replace('"linear"', '"test_params_theirs"', 1).replace('"linear"', '"nothing"', 1)
    (theirs / "net.toml").write_text('plugins = ["theirs.py"]\n' + text)
    (theirs / "net.py").write_text(mark + "network = None\n")
    (mine / "net.toml").symlink_to(theirs / "net.toml")
    monkeypatch.chdir(mine)
    for command in ("check", "draw"):
        for file in (theirs / "net.toml", Path("net.toml"), theirs / "net.py"):
            monkeypatch.setattr(sys, "argv", ["petabatch", command, str(file)])
            with pytest.raises(SystemExit) as ended:
                main()
            said = capsys.readouterr().err
            assert ended.value.code == 2
            assert not executed.exists()
            assert "not executed" in said
            assert "--allow-code" in said
            assert file.suffix == ".py" or all(
                f"'{kind}'" in said for kind in ("test_params_theirs", "nothing")
            )
    for arguments in (["--allow-code"], []):
        monkeypatch.setattr(sys, "argv", ["petabatch", "check", str(theirs / "net.py"), *arguments])
        if not arguments:
            monkeypatch.chdir(theirs)
        with pytest.raises(SystemExit):
            main()
        assert "defines no `network`" in capsys.readouterr().err
        assert executed.exists()
        executed.unlink()


def test_loops_of_links_are_refused_as_files_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("loop.toml", "loop.py"):
        (tmp_path / name).symlink_to(name)
    (tmp_path / "net.toml").write_text('plugins = ["loop.py"]\n' + SMALL)
    monkeypatch.chdir(tmp_path)
    for command in ("check", "draw", "run"):
        for file, words in (("loop.toml", "symbolic links"), ("net.toml", "no such plug-in file")):
            monkeypatch.setattr(sys, "argv", ["petabatch", command, file])
            with pytest.raises(SystemExit) as ended:
                main()
            assert ended.value.code == 2
            assert words in capsys.readouterr().err


def test_a_plug_in_cannot_take_the_type_of_a_built_in(tmp_path: Path) -> None:
    (tmp_path / "doubled.py").write_text(LAYER.replace("test_params_doubled", "linear"))
    (tmp_path / "net.toml").write_text('plugins = ["doubled.py"]\n' + SMALL)
    # In a process of its own, since a class stays known once it is defined.
    checked = [sys.executable, "-m", "petabatch", "check", "net.toml"]
    done = subprocess.run(checked, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert "the type of a plug-in is that of a built-in layer" in done.stderr
    assert "petabatch.layers.pointwise.Linear and petabatch_plugin_doubled_" in done.stderr


def test_a_class_that_inherits_its_type_is_no_choice() -> None:
    class Inheriting(Linear):
        """A linear layer without a type of its own."""

    assert Layer.choices()["linear"] is Linear
    assert Inheriting not in Layer.choices().values()


def test_initialisers_that_only_the_engine_makes_are_no_choices() -> None:
    assert Portion(whole=None, axis=0, part=0, parts=1).type == ""
    assert "" not in Initial.choices()


def test_schedules_are_printed_without_a_count_of_one_and_stored_with_it() -> None:
    assert [str(every) for every in (DISPLAY, STEP, NEVER, Every(10, "displays"))] == [
        "display", "step", "never", "10 displays",
    ]  # fmt: skip
    table = resolved(parse(SMALL).network)
    assert table["layers"]["error"]["every"] == "1 steps"
    assert table["layers"]["error"]["reset"] == "never"


def test_a_plug_in_written_for_the_former_name_of_the_step_context_still_works(tmp_path: Path) -> None:
    old = LAYER.replace(
        "from petabatch.layers", "from petabatch.spec.parts import Moment\nfrom petabatch.layers"
    )
    (tmp_path / "old.py").write_text(old.replace("doubled", "old"))
    text = 'plugins = ["old.py"]\n' + SMALL.replace('"linear"', '"test_params_old"', 1)
    (tmp_path / "net.toml").write_text(text)
    assert type(load(tmp_path / "net.toml").network.layers["error"]).__name__ == "Doubled"


def test_a_plug_in_that_has_gone_is_an_error_also_on_resume(tmp_path: Path) -> None:
    kept = json.dumps({**resolved(parse(SMALL).network), "plugins": [str(tmp_path / "gone.py")]})
    with pytest.raises(ParamsError, match="there is no such plug-in file"):
        Loaded.from_json(kept, "resolved.json")


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        ("x = 1\nraise RuntimeError('no luck')", "RuntimeError: no luck|broken.py:2"),
        ("def f(:\n", "SyntaxError|broken.py:1"),
    ],
)
def test_a_plug_in_that_fails_says_where(plugin: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(plugin)
    found = report(f'title = "x"\nplugins = ["broken.py"]\n{SMALL}', tmp_path)
    assert found.startswith("bad.toml:2: plugins: a plug-in cannot be imported: ")
    for words in said.split("|"):
        assert words in found
    near = report('plugins = ["brokn.py"]\n' + SMALL, tmp_path)
    assert "bad.toml:1: plugins: there is no such plug-in file" in near
    assert "did you mean broken.py?" in near


PYTHON = """
from petabatch.layers import LCA, Linear
from petabatch.spec.network import Network, Run

network = Network(
    run=Run(steps=3),
    layers={"a": LCA(shape=(4, 4, 2), threshold=0.25), "b": Linear(shape=(4, 4, 1))},
)
"""


def test_a_python_file_is_loaded_and_overridden_like_a_params_file(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text(PYTHON)
    assert load(file).network.run.steps == 3
    changed = load(file, ["run.steps=7", "layers.a.threshold=0.5"])
    assert changed.text == PYTHON
    assert changed.network.run.steps == 7
    assert resolved(changed.network)["layers"]["a"]["threshold"] == 0.5
    with pytest.raises(ParamsError, match=r"\(set by -s layers.a.treshold=1\)"):
        load(file, ["layers.a.treshold=1"])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("threshold=0.25", "treshold=0.25", "net.py:7: LCA.treshold: there is no such key|did you mean threshold?"),
        ("shape=(4, 4, 1)", "shape=(4, 4)", "net.py:7: Linear.shape: the array is too short|an array of 3 values"),
        ("run=Run(steps=3)", "rnu=Run(steps=3)", "net.py:5: Network.run: this key is missing|net.py:5: Network.rnu"),
        ("Run(steps=3)", "Run()", "net.py:6: Run: the length of the run is missing"),
        ("Linear(shape=(4, 4, 1))", "3", "net.py:5: Network.layers.b: a table with a `type` is required here"),
        ("network = ", "netwrk = ", "net.py: this file defines no `network`"),
        ("Run(steps=3)", "Rnu(steps=3)", "net.py:6: NameError: name 'Rnu' is not defined"),
        ("run=Run(steps=3),", "run=Run(steps=3", "net.py:5: SyntaxError: '(' was never closed"),
    ],
)  # fmt: skip
def test_a_wrong_python_file_gives_line_and_hint(old: str, new: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    assert old in PYTHON
    file.write_text(PYTHON.replace(old, new))
    with pytest.raises(ParamsError) as caught:
        load(file)
    for words in said.split("|"):
        assert words in str(caught.value)


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
        "[[runs]]\nn = 1\n[[runs]]\nn = 2\n[runs.inner]\nm = 3\n"
        '[ spaced . \'li.teral\' ]\n"tab\\t" = [{ k = "}" }, { k = 2 }] # ]\nlast = """a""""\n'
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
        ("runs", "1", "inner"): 17,
        ("runs", "1", "inner", "m"): 18,
        ("spaced", "li.teral", "tab\t"): 20,
        ("spaced", "li.teral", "tab\t", "1", "k"): 20,
        ("spaced", "li.teral", "last"): 21,
    }
    assert {path: lines[path] for path in expected} == expected
    assert ("fake",) not in lines
    assert set(_paths(tomllib.loads(text))) == set(lines)


def _paths(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every key path of parsed TOML; of an array, the entries that are tables."""
    inner = dict(enumerate(value)) if isinstance(value, list) else value if isinstance(value, dict) else {}
    if path and (isinstance(value, dict) or not path[-1].isdigit()):
        yield path
    for key, one in inner.items():
        yield from _paths(one, (*path, str(key)))


def test_a_resolved_network_reads_back_as_itself(small: Path) -> None:
    network = simulation.read(small).network
    plain: Any = resolved(network)
    assert Network.model_validate(plain) == network
    assert plain["layers"]["V1"]["self_interact"] is True
    kept = json.loads(json.dumps(plain))
    assert Network.model_validate(kept) == network


def test_every_reference_of_the_json_schema_resolves_and_every_type_is_in_it() -> None:
    schema = json_schema()
    assert schema["$schema"].endswith("2020-12/schema")
    references = set(_references(schema))
    assert references
    for reference in references:
        assert reference.removeprefix("#/$defs/") in schema["$defs"]
    for base in Part.__subclasses__():
        for name, part in base.choices().items():
            found = schema["$defs"][f"{base.__name__}.{name}"]
            assert set(found["properties"]) == set(part.model_fields)
            assert "type" in found["required"]
    json.dumps(schema)


@pytest.mark.long
def test_the_json_schema_accepts_a_good_file_and_no_misspelt_key() -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    validator.validate(tomllib.loads(SMALL))
    assert not validator.is_valid(tomllib.loads(SMALL.replace("tau = 10.0", "taus = 10.0")))
    assert not validator.is_valid(tomllib.loads(SMALL.replace('type = "lca"', 'type = "lsa"')))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from _references(one)
