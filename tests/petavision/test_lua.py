"""PetaVision's parameter files in Lua: what is read of them, and what they cannot do."""

from __future__ import annotations

import os
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory
from petabatch.errors import ParamsError
from petabatch.petavision import read
from petabatch.petavision.lua import Environment
from petabatch.petavision.lua import read as lua
from petabatch.petavision.pvp import write_activities
from petabatch.spec.load import parse as parse_toml
from support.commands import Command

pytest.importorskip("lupa.lua54", reason="lupa is not installed (extra petavision)")

RNG = np.random.default_rng(1)
NETWORK = """
package.path = package.path .. ";" .. "../parameterWrapper/?.lua"
local pv = require "PVModule"
local size = 32 / 4                       -- a float in Lua
local net = {
   column = { groupType = "HyPerCol", nx = size, ny = size, stopTime = math.ceil(7.5), dt = 1 },
   Ones = { groupType = "ConstantLayer"; nf = 2; InitVType = "ConstantV"; valueV = 1; AMax = infinity };
   ["Out"] = { groupType = "HyPerLayer", nf = 2, phase = 1, triggerLayerName = nil, writeStep = -1 },
}
pv.addGroup(net, "OnesToOut", {
   groupType = "HyPerConn", channelCode = 0, nxp = 1, nyp = 1, delay = {0, 2}, numAxonalArbors = 2,
   weightInitType = "OneToOneWeights", weightInit = 0.5, plasticityFlag = false, normalizeMethod = "none",
   initWeightsFile = function() end,
})
"""
PRINTED = NETWORK + "pv.printConsole(net)\n"


def imported(folder: Path, text: str, **variables: str) -> list[Any]:
    (folder / "net.lua").write_text(text)
    return read(folder / "net.lua", folder, environment=Environment(variables))


def failure(folder: Path, text: str, **variables: str) -> str:
    with pytest.raises(ParamsError) as caught:
        imported(folder, text, **variables)
    return str(caught.value)


def test_the_tables_of_groups_that_a_file_prints_are_its_network(tmp_path: Path) -> None:
    (found,) = imported(tmp_path, PRINTED)
    assert found.translation.error() is None
    net = tomllib.loads(found.text)
    assert net["run"] == {"steps": 8}
    assert list(net["layers"]) == ["Ones", "Out"]
    assert net["layers"]["Ones"]["value"] == 1.0
    assert net["connections"]["OnesToOut_2"]["delay_steps"] == 2
    assert net["connections"]["OnesToOut"]["init"] == {"type": "constant", "value": 0.5, "same_feature": True}
    places = {name: group.place.line for name, group in found.translation.draft.source.groups.items()}
    assert places == {"column": 6, "Ones": 7, "Out": 8, "OnesToOut": 10}


def test_a_network_that_is_not_printed_is_the_only_global_one(tmp_path: Path) -> None:
    (found,) = imported(tmp_path, NETWORK.replace("local net", "net"))
    assert "[layers.Out]" in found.text
    assert "prints no network" in failure(tmp_path, NETWORK)
    assert "several networks" in failure(tmp_path, NETWORK.replace("local net", "net") + "other = net\n")


def test_sweeps_are_those_of_parameter_files(tmp_path: Path) -> None:
    text = NETWORK + 'pv.paramSweep(net, "Ones", "valueV", {1, 2, 3})\npv.printConsole(net)\n'
    (found,) = imported(tmp_path, text)
    assert tomllib.loads(found.text)["sweep"] == {"layers": {"Ones": {"value": [1.0, 2.0, 3.0]}}}
    text = NETWORK + 'pv.batchSweep(net, "OnesToOut", "nxp", {1, 3})\npv.printConsole(net)\n'
    assert len(imported(tmp_path, text)) == 2


def test_groups_are_copied_and_overwritten(tmp_path: Path) -> None:
    copy = 'pv.addGroup(net, "Again", net.Ones, {valueV = 4})\nnet.Ones.valueV = 2\npv.printConsole(net)\n'
    (found,) = imported(tmp_path, NETWORK + copy)
    layers = tomllib.loads(found.text)["layers"]
    assert (layers["Ones"]["value"], layers["Again"]["value"]) == (2.0, 4.0)
    wrong = NETWORK + 'pv.addGroup(net, "Again", net.Ones, {width = 4})'
    assert "net.lua:15: the group Again has no parameter width to overwrite" in failure(tmp_path, wrong)
    assert "there is a group Out already" in failure(tmp_path, NETWORK + 'pv.addGroup(net, "Out", {})')


def test_modules_are_found_beside_the_file_alone(tmp_path: Path) -> None:
    inside = tmp_path / "project"
    (inside / "parts").mkdir(parents=True)
    (inside / "parts" / "sizes.lua").write_text("return {nf = 5}")
    (tmp_path / "outside.lua").write_text("return {nf = 6}")
    (inside / "linked.lua").symlink_to(tmp_path / "outside.lua")
    (inside / "wrong.lua").write_text("return = 1")
    text = PRINTED.replace("nf = 2;", 'nf = require("parts.sizes").nf;')
    (found,) = imported(inside, text)
    assert tomllib.loads(found.text)["layers"]["Ones"]["shape"] == [8, 8, 5]
    for name, message in (
        ("absent", "the module absent cannot be read"),
        ("../outside", "is no name of a module"),
        ("linked", "is outside the root folder"),
        ("wrong", "wrong.lua:1: "),
        ("os", "the module os cannot be read"),
    ):
        assert message in failure(inside, f'require "{name}"')


NAMES = """
local pv = require "größe"
local g = {column = {groupType = "HyPerCol", nx = 4, ny = 4, nbatch = 1, dt = 1, stopTime = 10}}
pv.addGroup(g, "Größe", {groupType = "ConstantLayer", nf = 1, phase = 0, comment = os.getenv("λ")})
pv.addGroup(g, "λ1", {groupType = "HyPerLayer", nf = 1, phase = 1})
local link = {groupType = "IdentConn", preLayerName = "Größe", postLayerName = "λ1", channelCode = 0}
pv.addGroup(g, "Grüße", link)
pv.printConsole(g)
"""


def test_names_may_have_letters_of_any_language(tmp_path: Path) -> None:
    folder = tmp_path / "λ"
    folder.mkdir()
    text = NAMES.replace('"größe"', '"sizes"')
    (folder / "sizes.lua").write_text("\ufeff#!/usr/bin/lua\nreturn require 'PVModule'")
    (found,) = imported(folder, text, λ="μ")
    net = tomllib.loads(found.text)
    assert list(net["layers"]) == ["Gro_e", "_1"]
    assert net["connections"]["Gru_e"] == {"type": "identity", "pre": "Gro_e", "post": "_1"}
    groups = found.translation.draft.source.groups
    assert [group.title for group in groups.values()] == ["column", "Größe", "λ1", "Grüße"]
    assert groups["Gro_e"].entries["comment"].value == "μ"
    assert "Größe is Gro_e here" in found.report
    assert found.wrong() is None
    assert "λ/absent.lua" in failure(folder, 'require "absent"')
    assert "größe is no name of a module" in failure(folder, NAMES)
    (folder / "größe.lua").write_text("error('Grüße')")
    with pytest.raises(ParamsError, match=r"größe\.lua:1: Grüße"):
        read(folder / "größe.lua", folder)


@pytest.mark.parametrize("begin", ["#!/usr/bin/env lua\n", "\ufeff", "\ufeff#!lua -i\n", "# no Lua\n"])
def test_a_first_line_for_the_shell_is_none_of_lua(begin: str, tmp_path: Path) -> None:
    (found,) = imported(tmp_path, begin + PRINTED)
    assert list(tomllib.loads(found.text)["layers"]) == ["Ones", "Out"]
    assert f"net.lua:{1 + begin.count(chr(10))}: x" in failure(tmp_path, begin + "error('x')")


def test_objects_of_python_are_out_of_reach(tmp_path: Path) -> None:
    """What a failed `require` raises is a text, and nothing shows the metatable of objects of Python."""
    (tmp_path / "loop.lua").symlink_to("loop.lua")
    with (tmp_path / "large.lua").open("wb") as file:
        file.truncate(8 << 30)
    for name in ("loop", "large"):
        imported(
            tmp_path,
            f"local ok, said = pcall(require, '{name}')\n"
            "assert(not ok and type(said) == 'string', type(said))\n"
            "assert(getmetatable(setmetatable({}, {a = 1})).a == 1)" + PRINTED,
        )

    def failing(name: str) -> str:
        raise KeyError(name)

    runtime = import_module("lupa.lua54").LuaRuntime(encoding="latin-1")
    sandbox = runtime.compile((Path(lua.__file__).parent / "sandbox.lua").read_text(encoding="latin-1"))
    run, _ = sandbox(failing, runtime.table(), runtime.table(), runtime.table())
    run("_, e = pcall(require, 'x') assert(type(e) == 'userdata' and getmetatable(e) == nil)", "x")


def test_functions_of_older_versions_of_lua_and_of_the_system(tmp_path: Path) -> None:
    imported(
        tmp_path,
        "assert(math.pow(2, 3) == 8 and math.log10(1000) > 2.999 and table.getn({1, 2}) == 2)\n"
        "assert(os.time() == os.time() and os.clock() == 0 and type(os.date('%c')) == 'string')\n"
        "assert(collectgarbage() == 0 and debug.getinfo(1).short_src ~= nil and select('#', ...) == 0)\n"
        "io.stderr:write('x', 1):write('y')\n" + PRINTED,
    )
    assert "there is no function gfind for files in Lua" in failure(tmp_path, "string.gfind('a', 'b')")


WRITES = r"""
os.execute("mkdir -p out")
for number, width in ipairs{4, 8} do
   net.column.nx = width
   local file = io.open("out/" .. number .. ".params", "w")
   io.output(file)
   if number == 1 then pv.printConsole(net) else io.write("// ", 2, pv.createParamsFileString(net)) end
   io.close(file)
   os.execute("mpirun PetaVision -p out/" .. number .. ".params")
end
local other = assert(io.open("other.params", "w"))
other:write('HyPerCol "column" = { nx = 2; ny = 2; dt = 1; stopTime = ', 3, '; };\n')
other:close()
io.open("notes.txt", "w"):write("no network")
assert(io.open("net.lua") == nil)
"""


def test_each_parameter_file_that_a_file_writes_is_a_network(tmp_path: Path) -> None:
    """Nothing is written, and no command is executed, but told of."""
    found = imported(tmp_path, NETWORK + WRITES)
    assert [tomllib.loads(one.text)["run"]["steps"] for one in found] == [8, 8, 3]
    shapes = [tomllib.loads(one.text)["layers"]["Out"]["shape"] for one in found[:2]]
    assert shapes == [[8, 4, 2], [8, 8, 2]]
    names = [one.translation.draft.source.written for one in found]
    assert names == ["out/1.params", "out/2.params", "other.params"]
    assert "os.execute does nothing here: mkdir -p out" in found[0].report
    assert [path.name for path in tmp_path.iterdir()] == ["net.lua"]
    with pytest.raises(ParamsError, match="this is not what the grammar has here"):
        imported(tmp_path, "io.open('x.params', 'w'):write('3')")


def test_files_are_executed_below_the_root_alone(tmp_path: Path) -> None:
    inside = tmp_path / "project" / "input"
    inside.mkdir(parents=True)
    (tmp_path / "outside.lua").write_text("return 1")
    (tmp_path / "project" / "sizes.lua").write_text("return 5")
    (inside / "own.lua").write_text("return 6")
    (inside / "net.lua").write_text(
        PRINTED.replace("nf = 2;", 'nf = dofile("sizes.lua") + dofile("own.lua");')
    )
    (found,) = read(inside / "net.lua", inside, environment=Environment(root=tmp_path / "project"))
    assert tomllib.loads(found.text)["layers"]["Ones"]["shape"] == [8, 8, 11]
    assert "the file sizes.lua cannot be read" in failure(inside, 'dofile("sizes.lua")')
    for path in ("../../outside.lua", str(tmp_path / "outside.lua"), "/etc/passwd", "../sizes.lua"):
        assert "is outside the root folder" in failure(inside, f'dofile("{path}")')
    (inside / "loop.lua").symlink_to("loop.lua")
    assert "the file loop.lua cannot be read: Too many levels" in failure(inside, 'dofile("loop.lua")')
    os.mkfifo(inside / "pipe.lua")
    assert "it is no regular file" in failure(inside, 'dofile("pipe.lua")')
    assert "it is no regular file" in failure(inside, 'require "pipe"')


def test_arguments_are_those_that_are_given(tmp_path: Path) -> None:
    text = PRINTED.replace("32 / 4", "tonumber(arg[1]) + select('#', ...) + #arg")
    (tmp_path / "net.lua").write_text(text)
    (found,) = read(tmp_path / "net.lua", tmp_path, environment=Environment(arguments=("4", "x")))
    assert tomllib.loads(found.text)["layers"]["Out"]["shape"] == [8, 8, 2]
    assert "--arg VALUE gives the arguments of a file: it asks for arg[1]" in failure(tmp_path, text)
    usage = failure(tmp_path, "if #arg < 1 then print('Usage:', arg[0], 'SIZE') return end")
    assert "it asks for arg[1]" in usage
    assert "it printed: Usage: net.lua SIZE" in usage


def test_the_environment_is_what_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIZE", "16")
    text = PRINTED.replace("32 / 4", 'tonumber(os.getenv("SIZE") .. "4")')
    said = failure(tmp_path, text)
    assert "net.lua:4: attempt to concatenate a nil value" in said
    assert "--env NAME=VALUE gives what os.getenv returns: SIZE" in said
    (found,) = imported(tmp_path, text, SIZE="2")
    assert tomllib.loads(found.text)["layers"]["Out"]["shape"] == [24, 24, 2]


def test_a_file_that_is_read_is_named(tmp_path: Path) -> None:
    said = failure(tmp_path, 'local file = io.open("sizes.txt")\nprint(file:read())')
    assert "net.lua:2: attempt to index a nil value (local 'file')" in said
    assert "io.open reads no files here: sizes.txt" in said


FORBIDDEN = (
    "python", "load", "loadstring", "loadfile", "debug.sethook", "coroutine", "io.popen", "io.lines",
    "io.read", "os.remove", "os.rename", "os.tmpname", "string.dump",
    "package.loadlib", "package.loaded", "package.searchers", "package.preload", "rawget(_G, 'load')",
    "('').dump", "_ENV.load", "debug.getregistry",
)  # fmt: skip


def test_nothing_else_is_within_reach(tmp_path: Path) -> None:
    lines = [f"if {name} ~= nil then error('{number}') end" for number, name in enumerate(FORBIDDEN)]
    lines.append("if getmetatable('') ~= false then error('strings') end")
    lines.append("local _, wrong = pcall(require, {})\nassert(type(wrong) == 'string')")
    lines.append("_, wrong = pcall(require, 'no such')\nassert(type(wrong) == 'string', type(wrong))")
    imported(tmp_path, "\n".join(lines) + PRINTED)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("while true do end", "needs more than 1 s of processor time"),
        ("while true do pcall(error) end", "needs more than 1 s of processor time"),
        ("x = string.rep('x', 1 << 30)", "memory"),
        ("t = {} for i = 1, 1e12 do t[i] = {} end", ""),
        ("function f() return 1 + f() end f()", "stack overflow"),
        ("os.exit()", "the file has ended itself"),
        ("x = ", "net.lua:1: unexpected symbol near <eof>"),
        ("error({})", ""),
        ("error(string.rep('x', 1e7))", "xxx"),
        ("require('PVModule').printConsole(3)", "PVModule.lua:61: the network is a number, not a table"),
        ("require('PVModule').printConsole({[1] = {}})", "is no group of parameters"),
        ("require('PVModule').printConsole({A = {}})", "the group A has no groupType"),
        ("require('PVModule').printConsole({A = {groupType = 'X', 2}})", "this parameter has no name"),
        ("require('PVModule').printConsole({A = {groupType = 'X', a = {1, 'b'}}})", "not one of numbers"),
        ("require('PVModule').printConsole({A = {groupType = 'X', a = {{}}}})", "A.a is neither a number"),
        ("require('PVModule').printConsole({A = {groupType = 'X', a = 0/0}})", "A.a is neither a number"),
        ("require('PVModule').printConsole({A = {groupType = 'ParameterSweep', 1}})", "this is no sweep"),
        ("require('PVModule').deepCopy((function() local t = {} t.t = t return t end)())", "contains itself"),
    ],
)
def test_files_that_are_none_end_with_a_message(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lua, "SECONDS", 1)
    assert message in failure(tmp_path, text)


def test_the_subnets_that_are_supplied_are_networks(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "params" / "subnets.lua").read_text()
    (found,) = imported(tmp_path, text)
    assert found.translation.error() is None, found.report
    net = tomllib.loads(found.text)
    assert net["layers"]["S1"]["shape"] == [4, 4, 6]
    assert net["layers"]["S1MaxPool"]["shape"] == [2, 2, 6]
    assert net["connections"]["ImageToImageScaled"]["init"]["value"] == 0.5
    assert net["connections"]["ImageError_S1ToS1"]["of"] == "S1ToImageError_S1"
    assert net["layers"]["ImageMask"]["vertices"] == [[0.0, 1.0], [0.0, 0.0]]
    said = failure(tmp_path, text.replace("addMaxPoolingLayer", "addMaxPooling"))
    assert "PVSubnets.addMaxPooling is not supplied" in said


@pytest.mark.long
def test_perceptrons_and_backpropagation_are_networks_that_learn(tmp_path: Path) -> None:
    """Of PetaVision's module, singleLayerPerceptron, backPropStep and deconvPath."""
    text = (Path(__file__).parent / "params" / "backprop.lua").read_text()
    images = [(float(t), RNG.normal(size=(4, 4, 1))) for t in range(2)]
    write_activities(tmp_path / "images.pvp", (4, 4, 1), images)
    (found,) = imported(tmp_path, text)
    assert found.translation.error() is None, found.report
    net = tomllib.loads(found.text)
    layers, links = net["layers"], net["connections"]
    delta = "DeltaTruthRecon_Pooled"
    assert links[f"PooledTo{delta}"]["learn"]["error"] == delta
    assert links[f"TruthBiasTo{delta}"]["learn"]["error"] == delta
    assert layers["TruthBias"] == {"type": "constant", "shape": [1, 1, 1], "value": 1.0}
    assert layers["DeltaPooled"]["scale"] == 0.5
    assert links[f"{delta}ToDeltaPooled"] == {
        "type": "transpose", "pre": delta, "post": "DeltaPooled", "channel": "inh", "of": f"PooledTo{delta}"
    }  # fmt: skip
    assert layers["DeltaPooledToDeltaHidden_placed"]["window"] == [4, 4]
    assert links["ImageToDeltaHiddenMaskedByHidden"]["learn"]["error"] == "DeltaHiddenMaskedByHidden"
    assert links["DeltaHiddenMaskedByHiddenToDeltaImage"]["of"] == "ImageToDeltaHiddenMaskedByHidden"
    assert layers["HiddenRecon_Pooled"]["every"] == "display"
    run = parse_toml(found.text, "x", tmp_path).network
    done = in_memory.run(run, [0, 20]).states
    for name in ("ImageToDeltaHiddenMaskedByHidden", f"PooledTo{delta}"):
        first, last = done[f"connections/{name}/weights"]
        assert abs(last - first).max() > 1e-4, name
    assert "the parameter nxp is missing" in failure(tmp_path, text.replace("{ nxp = 1, nyp = 1,", "{"))
    assert "neither" in failure(tmp_path, text.replace('"forward"', '"sideways"'))


def test_import_alone_executes_a_file(tmp_path: Path, petabatch: Command) -> None:
    (tmp_path / "net.lua").write_text(PRINTED.replace("32 / 4", 'os.getenv("SIZE") + 0'))
    done = petabatch("import", tmp_path / "net.lua", "-o", tmp_path / "net.toml", "--env", "SIZE=4")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads((tmp_path / "net.toml").read_text())["layers"]["Out"]["shape"] == [4, 4, 2]
    assert "files in Lua are executed by import alone" in petabatch("check", tmp_path / "net.lua").stderr


def test_without_lupa_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lua, "find_spec", lambda name: None)
    assert r"petabatch[petavision]" in failure(tmp_path, PRINTED)
    with pytest.raises(ParamsError, match="executed by import alone"):
        petabatch.load(tmp_path / "net.lua")
