"""PetaVision's parameter files as networks: what they become, what is said of them, and that they run."""

from __future__ import annotations

import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory
from petabatch.errors import ParamsError
from petabatch.network.build import build
from petabatch.network.loop import find_loop
from petabatch.petavision import read
from petabatch.petavision.export import export
from petabatch.petavision.pvp import write_activities, write_weights
from petabatch.petavision.text import toml
from petabatch.spec.load import parse
from petabatch.storage.checkpoint import latest_checkpoint, load_checkpoint
from petabatch.storage.directory import RunDirectory
from petabatch.weights import WeightFile
from support.commands import Command, alone
from support.petavision_groups import CONTEXT

HEAD = (
    'HyPerCol "column" = { nx = 4; ny = 4; dt = 1; stopTime = 10; };\n'
    'PvpLayer "I" = { nf = 1; inputPath = "x.pvp"; displayPeriod = 5; };\n'
)
PARAMS = Path(__file__).parent / "params"
RNG = np.random.default_rng(3)


def tables(name: str) -> dict[str, Any]:
    (found,) = read(PARAMS / f"{name}.params")
    return tomllib.loads(found.text)


def imported(folder: Path, text: str) -> Any:
    (folder / "net.params").write_text(text)
    return read(folder / "net.params")


@pytest.fixture
def lca(tmp_path: Path) -> Path:
    """The network of `lca.params`, with images in the folder above, as in PetaVision's projects."""
    (tmp_path / "input").mkdir()
    images = [(float(t), RNG.normal(size=(8, 8, 2))) for t in range(6)]
    write_activities(tmp_path / "input" / "images.pvp", (8, 8, 2), images)
    return Path(shutil.copy(PARAMS / "lca.params", tmp_path / "input" / "lca.params"))


def test_a_learning_lca_reads_as_a_person_writes_it(lca: Path) -> None:
    (found,) = read(lca, lca.parent.parent)
    net = tomllib.loads(found.text)
    assert net["run"] == {"batch": 2, "display": 10, "displays": 4, "seed": 1234567890}
    assert net["layers"]["Image"]["source"] == {
        "type": "array", "file": "input/images.pvp", "normalize": "petavision",
    }  # fmt: skip
    assert net["layers"]["Error"] == {"type": "linear", "shape": [8, 8, 2]}
    assert net["layers"]["V1"] == {
        "type": "lca", "shape": [4, 4, 6], "tau": 10.0, "threshold": 0.3, "initial": 0.3,
        "time_scale": {
            "type": "knee", "energy": "Energy", "minimum": 0.5, "maximum": 0.6, "factor": 0.3, "growth": 0.25,
            "knee": 0.9, "slope": 0.1,
        },
    }  # fmt: skip
    assert net["connections"]["V1ToError"] == {
        "type": "conv", "pre": "V1", "post": "Recon", "patch": [4, 4],
        "init": {"type": "uniform", "low": -1.0, "sparsity": 0.2}, "normalize": {"type": "l2"},
        "learn": {"type": "hebbian", "error": "Error", "rate": 0.5, "momentum": pytest.approx(np.exp(-0.2))},
    }  # fmt: skip
    assert net["connections"]["ErrorToV1"]["of"] == "V1ToError"
    assert net["connections"]["ReconToError"]["feedback"] is True
    assert "V1ToRecon" not in net["connections"]
    assert net["probes"] == {"Energy": {"type": "energy", "error": "Error", "code": "V1", "coefficient": 0.3}}
    assert net["checkpoint"] == {"every": "2 displays"}
    assert net["output"] == {
        "layers": {"V1": {"every": "display"}, "Recon": {"every": "display"}},
        "connections": {"V1ToError": {"every": "display"}},
    }


def test_an_imported_lca_is_the_loop_that_its_kernels_know(lca: Path) -> None:
    loop = find_loop(build(petabatch.load(lca).network))
    assert (loop.image, loop.error, loop.code, loop.recon) == ("Image", "Error", "V1", "Recon")


def test_a_learning_lca_goes_on_from_its_exported_checkpoint(lca: Path, tmp_path: Path) -> None:
    """Weights of the MomentumConn are one connection with its clone, and have its name in the files."""
    run = alone(lca, "run", "run.displays=2")
    names = {path.name for path, _ in export(run, tmp_path / "out")}
    assert {"V1ToError.pvp", "V1ToError_W.pvp", "V1ToError_prev_dW.pvp", "V1_V.pvp"} <= names
    (one,) = read(lca, lca.parent, checkpoint=tmp_path / "out" / "Checkpoints" / "Checkpoint20")
    (lca.parent / "again.toml").write_text(one.text)
    found = in_memory.run(petabatch.load(lca.parent / "again.toml"), [0]).states
    head = latest_checkpoint(RunDirectory(run))
    assert head is not None
    arrays, _ = load_checkpoint(head, 0, 2)
    for key in ("layers/V1/V", "connections/V1ToError/momentum"):
        np.testing.assert_array_equal(found[key][0], arrays[key])
    weights = "connections/V1ToError/weights"
    np.testing.assert_array_equal(found[weights][0], arrays[weights])  # not normalised again


def test_loading_is_importing_and_loading_that(lca: Path, tmp_path: Path) -> None:
    (found,) = read(lca, tmp_path)
    (tmp_path / "net.toml").write_text(found.text)
    one, two = petabatch.load(lca), petabatch.load(tmp_path / "net.toml")
    assert one.network == two.network
    done = in_memory.run(petabatch.load(lca, ["run.displays=1"]).network, [10])
    assert np.isfinite(done.recorded["probes/Energy/total"]).all()
    assert (done.states["layers/V1/A"] != 0).any()


def test_errors_found_later_have_the_line_of_their_group(lca: Path) -> None:
    with pytest.raises(ParamsError) as caught:
        petabatch.load(lca, ["layers.V1.tau=-1"])
    (problem,) = caught.value.problems
    assert caught.value.file == str(lca)
    assert "layers.V1.tau" in str(caught.value)
    lca.write_text(lca.read_text().replace("nxp                                 = 4", "nxp = 400"))
    with pytest.raises(ParamsError) as caught:
        petabatch.params.plan(petabatch.load(lca))
    (problem,) = caught.value.problems
    line = problem.line or 0
    assert lca.read_text().splitlines()[line - 1].startswith('MomentumConn "V1ToError"')


def test_includes_arrays_and_arbors() -> None:
    net = tables("grammar")
    assert net["run"] == {"steps": 3, "seed": 12345678}
    assert net["layers"]["A"] == {"type": "linear", "shape": [4, 4, 1]}
    assert net["layers"]["B"] == {"type": "rectified", "shape": [4, 4, 1], "threshold": 1.0, "shift": 0.5}
    assert net["connections"]["OnesToA"]["init"] == {"type": "constant", "value": 0.25}
    assert net["connections"]["OnesToA_2"]["delay_steps"] == 1
    assert net["connections"]["OnesToB"] == {"type": "identity", "pre": "Ones", "post": "B"}
    assert net["output"]["layers"].keys() == {"A", "B"}


def test_former_names() -> None:
    net = tables("older")
    assert net["layers"]["Film"]["source"]["file"] == "images.pvp"
    assert net["run"] == {"display": 2, "displays": 2}
    assert net["layers"]["Out"] == {
        "type": "rectified", "shape": [4, 4, 2], "threshold": 0.1, "maximum": 5.0,
    }  # fmt: skip
    assert net["connections"]["FilmToOut"]["type"] == "conv"
    assert net["connections"]["FilmToCopy"] == {
        "type": "clone",
        "pre": "Film",
        "post": "Copy",
        "of": "FilmToOut",
    }
    assert net["probes"]["Norm"] == {"type": "l2", "layer": "Out"}
    (found,) = read(PARAMS / "older.params")
    assert "KernelConn is the former name of HyPerConn" in found.report
    assert "restart: not needed" not in found.report  # it has its default


def test_a_sweep_of_numbers_is_one_network(tmp_path: Path) -> None:
    net = tables("sweep")
    assert net["sweep"] == {
        "combine": "zip",
        "layers": {"Out": {"threshold": [0.5, 1.5, 0.75], "minimum": [0.0, -1.0, 0.25]}},
    }
    done = in_memory.run(petabatch.load(PARAMS / "sweep.params").network, [2])
    assert done.states["layers/Out/A"][0, :, 0, 0, 0].tolist() == [1.0, -1.0, 1.0]


def test_a_sweep_of_shapes_is_a_network_for_each_value(tmp_path: Path) -> None:
    text = (PARAMS / "sweep.params").read_text()
    text += 'ParameterSweep "OnesToOut":nxp = { 1; 3; 1; };\n'
    found = imported(tmp_path, text)
    patches = [tomllib.loads(one.text)["connections"]["OnesToOut"]["patch"] for one in found]
    assert patches == [[1, 1], [1, 3], [1, 1]]
    with pytest.raises(ParamsError, match="several networks"):
        petabatch.load(tmp_path / "net.params")


def test_what_is_not_supported_is_named_with_its_place(tmp_path: Path) -> None:
    text = (PARAMS / "sweep.params").read_text().partition("ParameterSweep")[0]
    text += 'MLPErrorLayer "Spikes" = { nf = 1; };\nIdentConn "SpikesToOut" = { channelCode = 0; };\n'
    text += 'OwnProbe "P" = { };\n'
    (found,) = imported(tmp_path, text)
    assert re.search(
        r"not supported +MLPErrorLayer Spikes\n +line 8, column 1: the class MLPErrorLayer", found.report
    )
    assert re.search(r"not supported +IdentConn SpikesToOut\n +line 9", found.report)
    assert re.search(r"left out +OwnProbe P", found.report)
    assert "# NOT SUPPORTED: Spikes" in found.text
    with pytest.raises(ParamsError, match="MLPErrorLayer is not supported"):
        petabatch.load(tmp_path / "net.params")


def test_numbers_without_an_end_are_written_as_a_person_would(tmp_path: Path) -> None:
    text = HEAD.replace("nx = 4;", "nx = 4; checkpointWrite = true; checkpointWriteStepInterval = 100000;")
    (found,) = imported(tmp_path, text + 'LeakyIntegrator "L" = { nf = 1; InitVType = "ZeroV"; };')
    assert "[checkpoint]" not in found.text
    assert "\ntau = 1e38\n" in found.text
    (found,) = imported(tmp_path, text.replace("100000", "5"))
    assert tomllib.loads(found.text)["checkpoint"] == {"every": "display"}


def test_names_with_blanks_are_names_of_petabatch(tmp_path: Path) -> None:
    text = (
        HEAD
        + """
HyPerLayer "the output" = { nf = 1; phase = 1; };
HyPerLayer "the_output" = { nf = 1; phase = 2; };
IdentConn "ITothe output" = { channelCode = 0; };
IdentConn "copy" = { preLayerName = "the output"; postLayerName = "the_output"; channelCode = 0; };
L1NormProbe "of the output" = { targetLayer = "the output"; };"""
    )
    (found,) = imported(tmp_path, text)
    net = tomllib.loads(found.text)
    assert list(net["layers"]) == ["I", "the_output_", "the_output"]
    assert net["connections"]["ITothe_output"]["post"] == "the_output_"
    assert net["connections"]["copy"] == {"type": "identity", "pre": "the_output_", "post": "the_output"}
    assert net["probes"] == {"of_the_output": {"type": "l1", "layer": "the_output_"}}
    assert "the output is the_output_ here: names have letters, digits, _ and -" in found.report


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("", "layers: this key is missing"),
        (
            'HyPerLayer "O" = { nf = 1; phase = 1; };'
            'HyPerConn "IToO" = { nxp = 9; nyp = 9; plasticityFlag = false; channelCode = 0; '
            'weightInitType = "UniformWeight"; normalizeMethod = "none"; };',
            "a patch of 9 rows does not fit on a layer of 4 rows",
        ),
    ],
)
def test_an_import_ends_as_a_check_of_what_it_wrote(
    groups: str, message: str, tmp_path: Path, petabatch: Command
) -> None:
    head = HEAD if groups else HEAD.partition("PvpLayer")[0]
    (tmp_path / "net.params").write_text(head + groups)
    done = petabatch("import", tmp_path / "net.params", "-o", tmp_path / "net.toml")
    assert (done.returncode, "not valid: " in done.stderr, message in done.stderr) == (2, True, True)
    checked = petabatch("check", tmp_path / "net.toml")
    assert (checked.returncode, message in checked.stderr) == (2, True)


def test_folders_without_a_parameter_file_and_missing_roots_are_named(
    tmp_path: Path, petabatch: Command
) -> None:
    (tmp_path / "d.toml").mkdir()
    done = petabatch("import", tmp_path / "d.toml")
    assert done.returncode == 1
    assert "d.toml: there is no parameter file in this folder" in done.stderr
    (tmp_path / "net.lua").write_text("")
    done = petabatch("import", tmp_path / "net.lua", "--root", tmp_path / "nodir")
    assert done.returncode == 2
    assert "--root: there is no such folder" in done.stderr


def test_a_folder_is_imported_to_the_bottom(tmp_path: Path, petabatch: Command) -> None:
    """What is wrong with one file is said, and does not end the others; files in Lua are named."""
    below = tmp_path / "project" / "a" / "b"
    below.mkdir(parents=True)
    good = HEAD.partition("PvpLayer")[0] + 'ConstantLayer "C" = { nf = 1; };'
    for path in (below / "one.params", below / "two.params", below / "two.pv"):
        path.write_text(good)
    (tmp_path / "project" / "bad.params").write_text("3")
    (below / "net.lua").write_text("")
    done = petabatch("import", tmp_path / "project", "-o", tmp_path / "out")
    written = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.toml")}
    assert written == {"a/b/one.toml", "a/b/two.params.toml", "a/b/two.pv.toml"}
    assert (done.returncode, "bad.params:1: column 1" in done.stderr) == (2, True)
    assert "net.lua: not executed; petabatch import" in done.stderr
    (tmp_path / "lua").mkdir()
    (tmp_path / "lua" / "net.lua").write_text("")
    done = petabatch("import", tmp_path / "lua")
    assert (done.returncode, "net.lua" in done.stderr) == (1, True)


def test_an_infinite_seed_is_refused(tmp_path: Path) -> None:
    text = (PARAMS / "sweep.params").read_text().partition("ParameterSweep")[0]
    with pytest.raises(ParamsError, match=r"randomSeed: column \d+: this number is infinite"):
        imported(tmp_path, text.replace("nx = ", "randomSeed = infinity;\nnx = ", 1))


def test_a_time_scale_that_is_not_supported_is_not_left_out(lca: Path) -> None:
    """It would change the dynamics; a probe that only measures would not."""
    text = lca.read_text()
    lca.write_text(text.replace('"Energy";\n    triggerLayerName', '"ErrorNorm";\n    triggerLayerName'))
    with pytest.raises(ParamsError, match="time scales follow the energy of a ColumnEnergyProbe"):
        petabatch.load(lca)
    lca.write_text(text + 'L1NormProbe "Lost" = { targetLayer = "Nowhere"; };\n')
    petabatch.load(lca)


RESCALED = [
    ('"l2"; patchSize = 16', {"method": "standard", "std": 0.25}),
    ('"l2NoMean"; patchSize = 2', {"method": "length", "norm": 8.0}),
    ('"pointResponseNormalization"', {"method": "length", "over": "features"}),
    ('"logreg"', {"type": "sigmoid", "invert": True}),
    ('"zerotonegative"', {"type": "rectified", "vertices": [[0, 0], [0, -1], [1e-38, 1e-38]]}),
]


@pytest.mark.parametrize(("given", "expected"), RESCALED)
def test_methods_of_rescaling(tmp_path: Path, given: str, expected: dict[str, object]) -> None:
    group = f'RescaleLayer "X" = {{ nf = 2; phase = 5; originalLayerName = "O"; rescaleMethod = {given}; }};'
    layer = tomllib.loads(translated(tmp_path, CONTEXT + group))["layers"]["X"]
    assert {"type": "rescale", **expected}.items() <= layer.items()


def test_a_copy_with_another_norm_is_a_clone_with_a_strength(tmp_path: Path) -> None:
    text = CONTEXT.replace('"none"', '"normalizeSum"; strength = 0.5')
    copy = (
        'CopyConn "X" = { preLayerName = "C"; postLayerName = "O"; channelCode = 1; originalConnName = "W"; '
    )
    table = tomllib.loads(
        translated(tmp_path, text + copy + 'normalizeMethod = "normalizeSum"; strength = 2; };')
    )
    assert table["connections"]["X"] == {
        "type": "clone", "pre": "C", "post": "O", "of": "W", "channel": "inh", "strength": 4.0
    }  # fmt: skip
    with pytest.raises(ParamsError, match="a copy is normalised as its original is"):
        translated(tmp_path, text + copy + 'normalizeMethod = "normalizeL2"; };')


def test_units_that_are_to_be_zero_are_counted(tmp_path: Path) -> None:
    probe = 'RequireAllZeroActivityProbe "X" = { targetLayer = "Ones"; nnzThreshold = %s; };'
    text = (
        'HyPerCol "column" = { nx = 2; ny = 2; dt = 1; stopTime = 3; };\n'
        'ConstantLayer "Ones" = { nf = 1; InitVType = "ConstantV"; valueV = 1; };\n'
    )
    for above, expected in (("0.5", 4), ("1.5", 0)):
        (found,) = imported(tmp_path, text + probe % above)
        assert "units that are not zero are counted; they do not end the run" in found.report
        recorded = in_memory.run(petabatch.load(tmp_path / "net.params").network).recorded
        assert recorded["probes/X/active"][:, 0].tolist() == [expected] * 3


DEPENDENT = """
HyPerCol "column" = { nx = 8; ny = 8; dt = 1; stopTime = 6; };
PvpLayer "I" = {
    nf = 2; phase = 0; inputPath = "images.pvp"; displayPeriod = 2; offsetX = 2; padValue = 0.5;
    normalizeLuminanceFlag = true;
};
InputRegionLayer "Region" = { nf = 2; originalLayerName = "I"; };
LIFGap "L" = { nf = 2; phase = 1; Vrest = -60; InitVType = "ConstantV"; valueV = -62; };
SigmoidLayer "S" = { nf = 2; phase = 3; originalLayerName = "Gap"; Vrest = 0.2; VthRest = 0.4; %s };
CloneVLayer "Copy" = { nf = 2; phase = 2; originalLayerName = "L"; };
GapLayer "Gap" = { nf = 2; phase = 1; originalLayerName = "L"; ampSpikelet = 30; };
LIFGap "M" = { nf = 2; phase = 1; };
BackgroundLayer "B" = { nf = 6; phase = 1; originalLayerName = "I"; repFeatureNum = 2; };
HyPerConn "GapToM" = {
    channelCode = 3; nxp = 3; nyp = 3; plasticityFlag = false; weightInitType = "UniformWeight";
    weightInit = 0.1; normalizeMethod = "none";
};
HyPerConn "GapToL" = {
    channelCode = 2; nxp = 3; nyp = 3; plasticityFlag = false; weightInitType = "UniformWeight";
    weightInit = 0.1; normalizeMethod = "none";
};
"""


def test_layers_of_potentials_are_linear_layers_with_a_connection(tmp_path: Path) -> None:
    found = tomllib.loads(translated(tmp_path, DEPENDENT % "SigmoidFlag = false; SigmoidAlpha = 0.25;"))
    layers, links = found["layers"], found["connections"]
    start = {"A": {"type": "constant", "value": -62.0}}
    assert layers["Gap"] == {"type": "linear", "shape": [8, 8, 2], "start": start}
    assert links["LToGap"] == {"type": "potential", "pre": "L", "post": "Gap"}
    assert links["spikesOfLToGap"] == {"type": "identity", "pre": "L", "post": "Gap", "strength": 30.0}
    assert links["GapToM"]["channel"] == "gap"
    assert layers["Gap_ones"] == {"type": "constant", "shape": [8, 8, 2], "value": 1.0, "border": 1.0}
    assert links["GapToM_conductance"] == {
        "type": "clone", "pre": "Gap_ones", "post": "M", "of": "GapToM", "channel": "gap_conductance"
    }  # fmt: skip
    assert links["GapToL"]["channel"] == "inh_b"
    assert layers["M"]["method"] == "arma_gap"
    assert links["LToCopy"] == {"type": "potential", "pre": "L", "post": "Copy"}
    assert links["GapToS"] == {"type": "identity", "pre": "Gap", "post": "S"}
    numbers = {"center": pytest.approx(0.3), "width": pytest.approx(0.05)}
    assert layers["S"] == {"type": "sigmoid", "shape": [8, 8, 2], "form": "line", **numbers}
    assert links["IToB"] == {"type": "background", "pre": "I", "post": "B", "copies": 2}
    states = in_memory.run(petabatch.load(tmp_path / "given.params").network, [1, 6]).states
    region = states["layers/Region/A"][1, 0]
    assert region[:, :6].all()
    assert not region[:, 6:].any()
    assert abs(states["layers/Copy/A"] - states["layers/L/V"]).max() == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"L"; ampSpikelet = 30', '"I"', "gap junctions are between neurons that spike"),
        ("repFeatureNum = 2", "repFeatureNum = 3", "the features do not match those of the original"),
        ('nf = 2; originalLayerName = "I"', 'nf = 2; originalLayerName = "L"', "this layer shows no images"),
        ("offsetX = 2;", 'offsetX = 2; batchMethod = "random";', "the region of images in random order"),
        ("%s", "SigmoidAlpha = 0.5;", "the sigmoid has no finite slope"),
    ],
)
def test_layers_of_others_that_do_not_fit_are_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in DEPENDENT
    with pytest.raises(ParamsError, match=message):
        translated(tmp_path, DEPENDENT.replace(old, new, 1).replace("%s", ""))


def test_a_potential_of_a_layer_that_is_updated_later_is_that_of_the_step_before(tmp_path: Path) -> None:
    text = DEPENDENT.replace('"Copy" = { nf = 2; phase = 2;', '"Copy" = { nf = 2; phase = 0;')
    text = text.replace('"Gap" = { nf = 2; phase = 1;', '"Gap" = { nf = 2; phase = 0;')
    links = tomllib.loads(translated(tmp_path, text % ""))["connections"]
    assert links["L_VToCopy"] == {"type": "identity", "pre": "L_V", "post": "Copy", "feedback": True}
    assert links["spikesOfLToGap"]["feedback"] is True
    states = in_memory.run(petabatch.load(tmp_path / "given.params").network, range(7)).states
    v, spikes = (states[f"layers/L/{name}"] for name in "VA")
    assert (v[1] != v[0]).all()
    np.testing.assert_array_equal(states["layers/Copy/A"][1:], v[:-1])
    np.testing.assert_allclose(states["layers/Gap/A"][1:], v[:-1] + 30 * spikes[:-1], rtol=1e-6)


CURVES = [
    ("VThresh = 0.5; AMin = 0; VWidth = infinity; AShift = 0.2", lambda v: np.where(v < 0.5, 0, v - 0.5)),
    ("VThresh = 0.5; AMin = 0.25; VWidth = infinity", lambda v: np.where(v < 0.5, 0.25, v - 0.25)),
    (
        "VThresh = 0.5; AMin = 0; AMax = 1; VWidth = infinity",
        lambda v: np.where(v < 0.5, 0, v - 0.5).clip(max=1),
    ),
    ("VThresh = 0.5; AMin = -infinity", lambda v: np.where(v < 0.5, np.finfo("f4").min, v)),
]


@pytest.mark.parametrize(("given", "expected"), CURVES)
@pytest.mark.parametrize("keyword", ["ANNLayer", "HyPerLCALayer"])
def test_infinite_widths_and_minima_are_what_the_original_makes_of_them(
    keyword: str, given: str, expected: Callable[[np.ndarray], np.ndarray], tmp_path: Path
) -> None:
    """A width of infinity is a line from AMin that rises as V; -infinity is the least number."""
    v = np.linspace(-2, 3, 32).reshape(1, 4, 4, 2).astype(np.float32)
    write_activities(tmp_path / "v.pvp", (4, 4, 2), [(0.0, v[0])])
    text = (
        HEAD.replace("nf = 1", "nf = 2")
        + f"""
{keyword} "V" = {{ nf = 2; phase = 1; InitVType = "InitVFromFile"; Vfilename = "v.pvp"; {given}; }};
IdentConn "VToV" = {{ channelCode = -1; }};"""
    )
    if keyword == "ANNLayer":
        text = text.replace("x.pvp", "v.pvp") + 'IdentConn "IToV" = { channelCode = 0; };'
    (found,) = imported(tmp_path, text)
    tables = {key: value for key, value in found.tables.items() if key != "output"}
    if keyword == "HyPerLCALayer":
        tables["layers"] = {"V": tables["layers"]["V"]}
    network = parse(toml(tables), "net", tmp_path).network
    states = in_memory.run(network, [1 if keyword == "ANNLayer" else 0]).states
    np.testing.assert_allclose(states["layers/V/A"][0, 0], expected(v[0]), rtol=1e-6, atol=1e-6)


def test_a_factor_before_a_threshold_is_the_strength_of_what_arrives(tmp_path: Path) -> None:
    text = (
        CONTEXT
        + """
ANNErrorLayer "X" = { nf = 2; phase = 5; errScale = 0.5; VThresh = 0.25; AMin = 0; InitVType = "ZeroV"; };
IdentConn "IToX" = { channelCode = 0; };
IdentConn "OToX" = { channelCode = 1; };"""
    )
    links = tomllib.loads(translated(tmp_path, text))["connections"]
    assert [links[name]["strength"] for name in ("IToX", "OToX")] == [0.5, 0.5]


def test_weights_with_a_mask_learn_where_it_is_not_zero(tmp_path: Path) -> None:
    text = CONTEXT.replace("plasticityFlag = false", 'useMask = true; maskLayerName = "Grey"; dWMax = 1')
    found = tomllib.loads(translated(tmp_path, text))
    assert found["layers"]["O_masked_by_Grey"] == {"type": "mask", "shape": [8, 8, 2]}
    assert found["connections"]["W"]["learn"]["error"] == "O_masked_by_Grey"
    mask = found["connections"]["GreyToO_masked_by_Grey"]
    assert (mask["type"], mask["channel"]) == ("conv", "mask")
    build(petabatch.load(tmp_path / "given.params").network)
    with pytest.raises(ParamsError, match="the mask has another shape"):
        translated(tmp_path, text.replace('"Grey"; dW', '"Half"; dW'))


def test_a_cost_whose_corner_is_0_is_0(tmp_path: Path) -> None:
    text = CONTEXT.replace('L1NormLCAProbe "S" = {', 'FirmThresholdCostFnProbe "S" = { VThresh = 0;')
    text += 'FirmThresholdCostFnProbe "Alone" = { VThresh = 0; targetLayer = "C"; };'
    found = tomllib.loads(translated(tmp_path, text))["probes"]
    assert found["E"] == {"type": "energy", "error": "O", "code": "C", "coefficient": 0.0}
    recorded = in_memory.run(petabatch.load(tmp_path / "given.params").network).recorded
    assert not recorded["probes/Alone/cost"].any()
    (wrong,) = imported(tmp_path, text.replace('"S" = { VThresh = 0;', '"S" = { VThresh = -1;'))
    assert "the threshold of the cost is negative" in wrong.report


def test_an_energy_of_infinite_widths_has_the_cost_l1(tmp_path: Path) -> None:
    text = CONTEXT.replace('L1NormLCAProbe "S"', 'FirmThresholdCostFnLCAProbe "S"')
    text = text.replace("AShift = 0.3;", "VWidth = infinity;")
    found = tomllib.loads(translated(tmp_path, text))
    assert found["probes"]["E"] == {"type": "energy", "error": "O", "code": "C", "coefficient": 0.3}
    assert found["layers"]["C"]["threshold"] == 0.3
    assert "width" not in found["layers"]["C"]


def test_noise_is_added_to_the_activity_of_another_layer(tmp_path: Path) -> None:
    group = 'NoiseLayer "X" = { nf = 2; phase = 2; originalLayerName = "I"; stdDev = 0.25; };'
    found = tomllib.loads(translated(tmp_path, CONTEXT + group))
    assert found["layers"]["X"] == {"type": "gaussian_noise", "shape": [8, 8, 2], "std": 0.25}
    assert found["connections"]["IToX"] == {"type": "identity", "pre": "I", "post": "X"}


def test_layers_that_follow_a_new_image_have_it_as_their_trigger(tmp_path: Path) -> None:
    group = 'ANNTriggerUpdateOnNewImageLayer "X" = { nf = 2; phase = 2; movieLayerName = "I"; };'
    assert tomllib.loads(translated(tmp_path, CONTEXT + group))["layers"]["X"]["every"] == "display"


def test_unpooling_by_index_is_a_layer_of_the_places(tmp_path: Path) -> None:
    group = (
        'TransposePoolingConn "Up" = { originalConnName = "Max"; preLayerName = "Half"; channelCode = 1; '
        'postLayerName = "%s"; delay = 1; }; HyPerLayer "Back" = { nf = 2; phase = 6; };'
    )
    found = tomllib.loads(translated(tmp_path, CONTEXT + group % "Back"))
    links = found["connections"]
    assert found["layers"]["Up_placed"] == {"type": "max_unpool", "shape": [8, 8, 2], "window": [2, 2]}
    assert links["Up"] == {"type": "pool", "pre": "Half", "post": "Up_placed", "delay_steps": 1}
    assert links["OToUp_placed"] == {"type": "identity", "pre": "O", "post": "Up_placed", "channel": "place"}
    assert links["Up_placedToBack"] == {
        "type": "identity", "pre": "Up_placed", "post": "Back", "channel": "inh"
    }  # fmt: skip
    mean = CONTEXT.replace("needPostIndexLayer = true", 'pvpatchAccumulateType = "avgpooling"')
    links = tomllib.loads(translated(tmp_path, mean + group % "Back"))["connections"]
    assert links["Up"] == {"type": "pool", "pre": "Half", "post": "Back", "channel": "inh", "delay_steps": 1}
    with pytest.raises(ParamsError, match="windows that overlap"):
        translated(tmp_path, CONTEXT.replace("nxp = 1", "nxp = 2") + group % "Back")
    with pytest.raises(ParamsError, match="the layers are not those of the original, exchanged"):
        translated(tmp_path, CONTEXT + group % "Grey")


ARBORS = """
HyPerCol "column" = { nx = 6; ny = 6; dt = 1; stopTime = 4; };
PvpLayer "I" = { nf = 2; phase = 0; inputPath = "images.pvp"; displayPeriod = 2; };
HyPerLayer "O" = { nf = 2; phase = 1; InitVType = "ZeroV"; };
HyPerLayer "Copy" = { nf = 2; phase = 2; InitVType = "ZeroV"; };
HyPerConn "W" = {
    preLayerName = "I"; postLayerName = "O"; channelCode = 0; nxp = 3; nyp = 3; numAxonalArbors = 3;
    delay = [0, 1, 2]; plasticityFlag = false; %s
};
TransposeConn "T" = {
    preLayerName = "O"; postLayerName = "Copy"; channelCode = 0; originalConnName = "W"; delay = 0;
};
IdentConn "W_2" = { preLayerName = "I"; postLayerName = "O"; channelCode = 1; };
"""


def test_each_arbor_is_a_connection_and_so_are_its_copies(tmp_path: Path) -> None:
    start = 'weightInitType = "UniformRandomWeight"; normalizeMethod = "normalizeSum"; strength = 2;'
    links = tomllib.loads(translated(tmp_path, ARBORS % start, 6))["connections"]
    assert [links[name].get("delay_steps", 0) for name in ("W", "W_2_", "W_3")] == [0, 1, 2]
    assert links["W_2"]["type"] == "identity"
    assert links["W"]["normalize"]["together"] == ["W_2_", "W_3"]
    assert [links[name]["of"] for name in ("T", "T_2", "T_3")] == ["W", "W_2_", "W_3"]
    apart = start + "normalizeArborsIndividually = true;"
    links = tomllib.loads(translated(tmp_path, ARBORS % apart, 6))["connections"]
    assert all(links[name]["normalize"] == {"type": "sum", "strength": 2.0} for name in ("W", "W_2_", "W_3"))
    spread = 'weightInitType = "SpreadOverArborsWeight"; weightInit = 3; normalizeMethod = "none";'
    links = tomllib.loads(translated(tmp_path, ARBORS % spread, 6))["connections"]
    assert [links[name]["init"] for name in ("W", "W_3")] == [
        {"type": "petavision_sectors", "value": 3.0, "sectors": 3},
        {"type": "petavision_sectors", "value": 3.0, "sectors": 3, "sector": 2},
    ]


def test_arbors_of_a_file_have_their_own_weights(tmp_path: Path) -> None:
    weights = RNG.normal(size=(3, 1, 1, 2, 3, 3, 2)).astype(np.float32)
    write_weights(tmp_path / "W.pvp", [(0.0, weights[0])])
    data = bytearray((tmp_path / "W.pvp").read_bytes())
    data[24:28] = (3).to_bytes(4, "little")  # the number of arbors
    for other in weights[1:]:
        write_weights(tmp_path / "other.pvp", [(0.0, other)])
        data += (tmp_path / "other.pvp").read_bytes()[104:]
    (tmp_path / "W.pvp").write_bytes(data)
    start = 'weightInitType = "FileWeight"; initWeightsFile = "W.pvp"; normalizeMethod = "none";'
    translated(tmp_path, ARBORS % start, 6)
    states = in_memory.run(petabatch.load(tmp_path / "given.params").network, [0]).states
    for number, name in enumerate(("W", "W_2_", "W_3")):
        np.testing.assert_array_equal(states[f"connections/{name}/weights"][0, 0], weights[number])
    WeightFile(path="W.npy")
    with pytest.raises(ParamsError, match=r"only a \.pvp file has arbors"):
        WeightFile(path="W.npy", arbor=1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("rMinX = 1.6; rMinY = 0.7", {"hole": [1, 3]}),
        ("rMinX = 1.6; rMinY = 0.5", {}),
        ("nonnegativeConstraintFlag = true; normalize_cutoff = 0.1", {"nonnegative": True, "cutoff": 0.1}),
    ],
)
def test_weights_that_are_set_to_0(tmp_path: Path, given: str, expected: dict[str, Any]) -> None:
    text = CONTEXT.replace('normalizeMethod = "none"', f'normalizeMethod = "normalizeL2"; {given}')
    text = text.replace("nxp = 3; nyp = 3", "nxp = 5; nyp = 5")
    found = tomllib.loads(translated(tmp_path, text))["connections"]["W"]["normalize"]
    assert found == {"type": "l2", **expected}
    with pytest.raises(ParamsError, match="this is more than the patch"):
        translated(tmp_path, text.replace(given, "rMinX = 3; rMinY = 3"))


def test_negative_frames_count_from_the_end(tmp_path: Path) -> None:
    frames = RNG.normal(size=(3, 1, 1, 2, 3, 3, 2)).astype(np.float32)
    write_weights(tmp_path / "W.pvp", [(float(t), frame) for t, frame in enumerate(frames)])
    potentials = RNG.normal(size=(3, 8, 8, 2)).astype(np.float32)
    write_activities(tmp_path / "V.pvp", (8, 8, 2), [(float(t), one) for t, one in enumerate(potentials)])
    text = CONTEXT.replace('"UniformWeight"', '"FileWeight"; initWeightsFile = "W.pvp"; frameNumber = -1')
    text = text.replace(
        'InitVType = "ZeroV"', 'InitVType = "InitVFromFile"; Vfilename = "V.pvp"; frameNumber = -2', 1
    )
    translated(tmp_path, text)
    found = in_memory.run(petabatch.load(tmp_path / "given.params").network, [0]).states
    np.testing.assert_array_equal(found["connections/W/weights"][0, 0], frames[-1])
    np.testing.assert_array_equal(found["layers/C/V"][0, 0], potentials[-2])


def test_one_chance_for_a_unit_is_a_layer_of_spikes(tmp_path: Path) -> None:
    group = (
        'HyPerConn "X" = { preLayerName = "I"; postLayerName = "O"; channelCode = 0; plasticityFlag = false; '
        'pvpatchAccumulateType = "stochastic"; normalizeMethod = "none"; weightInitType = "%s"; };'
    )
    tables = tomllib.loads(translated(tmp_path, CONTEXT + group % "OneToOneWeights"))
    assert tables["connections"]["X"]["pre"] == "X_released"
    assert tables["connections"]["IToX_released"]["pre"] == "I"
    assert tables["layers"]["X_released"] == {
        "type": "retina", "shape": [8, 8, 2], "rate": 1000.0, "refractory": 0.0, "recovery": 0.0
    }  # fmt: skip
    with pytest.raises(ParamsError, match="stochastic delivery to several units is not supported"):
        translated(tmp_path, CONTEXT + group % "UniformWeight")


def translated(folder: Path, text: str, size: int = 8) -> str:
    """Return the params file that a text becomes; raises ParamsError for what is not supported."""
    write_activities(folder / "images.pvp", (size, size, 2), [(0.0, np.zeros((size, size, 2)))])
    (folder / "given.params").write_text(text)
    (found,) = read(folder / "given.params", folder)
    if (error := found.translation.error()) is not None:
        raise error
    return found.text


PLAIN = (
    'channelCode = 0; weightInitType = "UniformWeight"; weightInit = 1; normalizeMethod = "none"; dWMax = 1; '
)
ENDS = 'preLayerName = "I"; postLayerName = "I"; channelCode = 0;'
MANY = {
    "inputs": """
PvpLayer "L%d" = { nf = 1; inputPath = "x.pvp"; displayPeriod = 5; batchMethod = "random"; };""",
    "layers": """
HyPerLayer "L%d" = { nf = 1; phase = 1; };
IdentConn "IToL%d" = { channelCode = 0; };""",
    "clones": f"""
HyPerLayer "L%d" = {{ nf = 1; phase = 1; }};
HyPerConn "IToL%d" = {{ {PLAIN}}};
CloneConn "C%d" = {{ {ENDS} originalConnName = "IToL%d"; }};""",
    "energies": """
L1NormProbe "P%d" = { targetLayer = "I"; energyProbe = "E%d"; };
ColumnEnergyProbe "E%d" = { };""",
    "copies": """
CloneVLayer "L%d" = { nf = 1; phase = %d; originalLayerName = "I"; };""",
    "wrong": """
L1NormProbe "P%d" = { targetLayer = "L%d"; };
AdaptiveTimeScaleProbe "T%d" = { targetName = "P%d"; };""",
}


@pytest.mark.parametrize("kind", MANY)
def test_the_work_grows_with_the_number_of_groups(kind: str, tmp_path: Path) -> None:
    def calls(groups: int) -> int:
        count = 0

        def see(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += 1

        text = MANY[kind]
        (tmp_path / "net.params").write_text(
            HEAD + "\n".join(text % ((number,) * text.count("%d")) for number in range(groups))
        )
        sys.setprofile(see)
        try:
            (found,) = read(tmp_path / "net.params")
            assert found.report
        finally:
            sys.setprofile(None)
        return count

    assert calls(320) < 6 * calls(80)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (f'HyPerConn "IToI" = {{ numAxonalArbors = 1e9; {PLAIN} }};', "these are too many arbors"),
        ('ConstantLayer "C" = { phase = infinity; };', "this value has another type"),
        (
            "".join(f'HyPerLayer "L{n}" = {{ triggerLayerName = "L{n + 1}"; }};' for n in range(700))
            + 'HyPerLayer "L700" = {};',
            "more than 64 layers trigger each other",
        ),
        (
            "".join(f'CloneConn "C{n}" = {{ originalConnName = "C{n + 1}"; {ENDS} }};' for n in range(700)),
            "more than 64 connections are copies of each other",
        ),
        (
            "".join(f'CloneVLayer "L{n}" = {{ originalLayerName = "L{n + 1}"; }};' for n in range(700)),
            "this layer is not supported: see its group",
        ),
    ],
    ids=["arbors", "phase", "triggers", "copies", "originals"],
)
def test_what_is_too_large_or_too_long_is_refused(groups: str, message: str, tmp_path: Path) -> None:
    (found,) = imported(tmp_path, HEAD + groups)
    assert message in str(found.translation.error())
    with pytest.raises(ParamsError, match="this batch is too large"):
        imported(tmp_path, HEAD.replace("nx = 4", "nx = 4; nbatch = 1e9"))


def test_the_command_writes_files_and_reports(lca: Path, petabatch: Command) -> None:
    folder = lca.parent.parent
    done = petabatch("import", lca, "-o", folder / "net.toml")
    assert done.returncode == 0, done.stderr
    assert "differs        MomentumConn V1ToError -> connections.V1ToError" in done.stderr
    assert petabatch("check", folder / "net.toml").returncode == 0
    again = petabatch("import", lca, "-o", folder / "net.toml")
    assert (again.returncode, "this file exists" in again.stderr) == (2, True)
    several = petabatch("import", lca.parent, "-o", folder / "all")
    assert several.returncode == 0, several.stderr
    assert (folder / "all" / "lca.toml").is_file()
    ran = petabatch("run", lca, "--out", folder / "out", "-s", "run.displays=1")
    assert ran.returncode == 0, ran.stderr
    lca.write_text(lca.read_text() + 'WTALayer "W" = { nf = 1; };\n')
    printed = petabatch("import", lca, "--path", f"input/={folder / 'nowhere'}/")
    assert printed.returncode == 1
    assert "# NOT SUPPORTED: W" in printed.stdout
