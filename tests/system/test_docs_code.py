"""The code of the README and of the docs: every block is executed, or says why not."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import petabatch
from petabatch import cli, simulation
from support import docs
from support.commands import BIN
from support.docs import PAGES, REPOSITORY, Block
from support.forked import forked_code
from support.processes import PATIENCE

SMALLER = {
    r"\bbatch = 16 ": "batch = 4 ",
    r"\bdisplays = 150\b": "displays = 10",
    r"\[16, 16, 128\]": "[16, 16, 8]",
}
"""The README's run with 8 features, in two seconds, with its own schedule of displays and output."""

SMALLER_DEMOS = {
    "params/whitened.toml": {
        "batch = 16 ": "batch = 2 ",
        "display = 200 ": "display = 20 ",
        "displays = 600": "displays = 50",
    },
    "demos/annealing/annealing.toml": {"display = 400": "display = 10"},
    "demos/adex/network.toml": {"display = 10000": "display = 2000"},
    "demos/coba/network.toml": {"display = 10000": "display = 200"},
    "demos/cuba/network.toml": {"display = 10000": "display = 200"},
    "demos/digits/learn.toml": {"display = 100": "display = 10"},
    "demos/digits/encode.toml": {"display = 100": "display = 10"},
    "demos/hopfield/network.toml": {"display = 100": "display = 20"},
    "demos/hodgkin_huxley/network.toml": {"display = 10000": "display = 200"},
    "demos/integrate_and_fire/network.toml": {"display = 200": "display = 40"},
    "demos/izhikevich/network.toml": {"display = 1000 ": "display = 50 "},
    "demos/kuramoto/network.toml": {"display = 4000": "display = 100"},
    "demos/locally_connected/locally_connected.toml": {"display = 100": "display = 5", "= 1600 ": "= 320 "},
    "demos/movies/movies.toml": {"display = 200 ": "display = 10 "},
    "demos/seeds/seeds.toml": {
        "display = 100": "display = 10",
        "displays = 500": "displays = 4",
        '"25 displays"': '"2 displays"',
    },
    "demos/sparsity/sparsity.toml": {"display = 400": "display = 10"},
    "demos/spiking_lca/network.toml": {"display = 20000": "display = 500"},
    "demos/stdp/network.toml": {"batch = 32": "batch = 2", "displays = 100": "displays = 10"},
    "demos/two_eyes/two_eyes.toml": {"displays = 250": "displays = 25"},
    "demos/two_layers/two_layers.toml": {"display = 120": "display = 10", "displays = 250": "displays = 25"},
    "demos/wilson_cowan/network.toml": {"display = 4000": "display = 400"},
}
"""The demos in short: what stands in their params files, and what takes its place."""

LESS = {"displays=300": "displays=11", "batch=32": "batch=6"}
"""Overrides in commands of the docs, in proportion."""

LONG = ("docs/tutorial.md", "docs/plots.md", "docs/encoding.md", "docs/ranks.md")
"""Pages with so many commands that they are run with -m long only."""

ELSEWHERE = {
    "petabatch run FILE --device gpu": "needs a GPU",
    "mpirun -n 4 petabatch run FILE": "docs/ranks.md has it",
    "petabatch resume DIR": "tests/system/test_cli.py interrupts a run",
    "petabatch kernels --compile": "tests/system/test_kernels.py compiles a few",
    "petabatch bench [FILE]": "tests/bench measures a smaller network",
    "petabatch import FILE.params -o FILE.toml": "tests/petavision/test_import.py imports several",
}
"""Commands of the README that are not executed here."""

EXCERPT = "an excerpt of "
"""Reason of a block of TOML whose lines stand in a file beside the page."""

INSTALLS = re.compile(r"\b(pip|venv|conda|apt)\b(?!/bin)")
"""Commands that would change the environment of the tests."""


def to_run(page: Path, language: str) -> list[Block]:
    """Return the blocks of a page in this language that are executed."""
    return [block for block in docs.blocks(page) if block.language == language and not block.reason]


def pages(*languages: str) -> list[str]:
    """Return the pages with such blocks."""
    return [
        str(page.relative_to(REPOSITORY)) for page in PAGES if any(to_run(page, one) for one in languages)
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the docs' commands work as in a checkout, with smaller params and a finished run."""
    site = tmp_path_factory.mktemp("site")
    for folder in ("params", "demos", "analysis"):
        shutil.copytree(REPOSITORY / folder, site / folder)
    (site / ".venv").symlink_to(BIN.parent)
    (site / "photos").mkdir()
    for name, values in zip("ab", np.random.default_rng(0).random((2, 16, 24, 3)), strict=True):
        np.save(site / "photos" / f"{name}.npy", values)
    for name, smaller in SMALLER_DEMOS.items():
        text = (site / name).read_text()
        for value, less in smaller.items():
            assert value in text, f"{name}: {value}"
            text = text.replace(value, less)
        (site / name).write_text(text)
    main = site / "params" / "natural_images.toml"
    text = main.read_text()
    for pattern, value in SMALLER.items():
        text, count = re.subn(pattern, value, text)
        assert count == 1
    main.write_text(text)
    shutil.copy(main, site / "mine.toml")
    until = docs.merged(text, to_run(REPOSITORY / "docs" / "until.md", "toml")[0].text)
    until["run"]["displays"] = 2
    (site / "codes.toml").write_text(docs.toml(until))
    for file in (main, site / "codes.toml"):
        simulation.run(simulation.read(file), site / "runs" / file.stem, mpi=False, quiet=True)
    return site


def in_site(site: Path, *command: str) -> None:
    """Run a command in the folder; fail with what it printed."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    python = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        command,
        cwd=site,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": python, "MPLBACKEND": "agg", "USER": "someone"},
    )
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}"


def test_every_block_is_executed_or_says_why_not() -> None:
    found = [block for page in PAGES for block in docs.blocks(page)]
    fences = sum(len(re.findall(r"^ *(```|~~~)", page.read_text(), re.M)) for page in PAGES)
    assert fences == 2 * len(found) >= 40
    for block in found:
        if block.language in docs.EXECUTED:
            continue
        assert not block.reason, f"{block.place}: this block is never executed, so it needs no reason"
        assert block.language in ("", "text"), f"{block.place}: cannot execute {block.language}"
        looks = re.search(r"^(\$ |petabatch |pip |python|mpirun |import |from \w+ import)", block.text, re.M)
        assert not looks, f"{block.place}: code without a language: {looks and looks[0]}"


def test_excerpts_of_params_files_are_valid_in_the_main_network(site: Path) -> None:
    """Those that are not run are read, whatever the reason, but for lines of a file that the reason names."""
    folder, source = site / "params", "from petabatch import simulation\n"
    (folder / "escape.py").write_text(_layer_of_the_page())
    found = [block for page in PAGES for block in docs.blocks(page) if block.language == "toml"]
    for number, block in enumerate(found):
        if block.reason.startswith(EXCERPT):
            name = block.reason.removeprefix(EXCERPT)
            assert block.text in (block.page.parent / name).read_text(), block.place
            continue
        file = folder / f"{block.page.stem}_{number}.toml"
        file.write_text(docs.toml(docs.merged((folder / "natural_images.toml").read_text(), block.text)))
        source += f"print({block.place!r})\nnetwork = simulation.read({str(file)!r})\n"
        source += "" if block.reason else "simulation.plan(network)\n"
    assert source.count("plan") >= 4
    assert source.count("read") >= 20
    done = forked_code(source, site)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_the_excerpt_in_the_readme_is_the_params_file() -> None:
    file = (REPOSITORY / "params" / "natural_images.toml").read_text()
    excerpt = to_run(REPOSITORY / "README.md", "toml")[0]
    assert docs.merged(file, excerpt.text) == tomllib.loads(file)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.demo)
        if name.startswith("demos/")
        else pytest.param(name, marks=pytest.mark.long)
        if name in LONG
        else name
        for name in pages("bash", "python")
    ],
)
def test_commands_of_a_page_run_and_then_its_python(name: str, site: Path) -> None:
    for block in to_run(REPOSITORY / name, "bash"):
        assert not INSTALLS.search(block.text), f"{block.place}: installs something; mark it as not run"
        in_site(site, "bash", "-euo", "pipefail", "-c", less(block.text))
    source = "".join(
        f"exec(compile({chr(10) * (block.line - 1) + block.text!r}, {name!r}, 'exec'))\n"
        for block in to_run(REPOSITORY / name, "python")
    )
    if source:
        done = forked_code(source, site)
        assert done.returncode == 0, f"{name}\n{done.stdout}{done.stderr}"


def _layer_of_the_page() -> str:
    blocks = to_run(REPOSITORY / "docs" / "extending.md", "python")
    return next(one.text for one in blocks if "class EscapeNoise" in one.text)


def test_the_layer_of_the_page_on_extending_runs(site: Path) -> None:
    folder = site / "plugin"
    folder.mkdir()
    (folder / "escape.py").write_text(_layer_of_the_page())
    (folder / "network.toml").write_text(
        'plugins = ["escape.py"]\n[run]\nsteps = 500\n'
        '[layers.one]\ntype = "constant"\nvalue = 1.0\nshape = [8, 8, 1]\n'
        '[layers.sheet]\ntype = "escape_noise"\nshape = [8, 8, 1]\n'
        '[connections.current]\ntype = "identity"\npre = "one"\npost = "sheet"\nstrength = 0.9\n'
        "[output.layers]\nsheet = { every = 1 }\n"
    )
    in_site(site, "petabatch", "run", "plugin/network.toml", "--out", "runs/plugin")
    spikes = petabatch.open(site / "runs" / "plugin").layer("sheet")[...]
    potential = 0.9 * (1 - 0.95 ** np.arange(1, 1000))
    silent = np.cumprod(np.exp(-np.exp((potential - 1) / 0.1)))  # so long after a spike
    assert spikes[-300:].mean() == pytest.approx(1 / (1 + silent.sum()), rel=0.15)


def less(command: str) -> str:
    """Return a command with smaller overrides."""
    for setting, value in LESS.items():
        command = command.replace(setting, value)
    return command


@pytest.mark.long
def test_commands_in_the_table_of_the_readme_run(site: Path) -> None:
    commands = docs.inline_commands(REPOSITORY / "README.md")
    assert ELSEWHERE.keys() <= set(commands)
    for command in commands:
        if command not in ELSEWHERE:
            file, folder = "params/natural_images.toml", "runs/natural_images"
            known = command.replace("FILE", file).replace("[DIR]", folder).replace("DIR", folder)
            in_site(site, *shlex.split(known))


def test_the_slurm_script_runs_then_resumes_and_requeues_what_was_stopped(site: Path) -> None:
    tools = site / "slurm"
    tools.mkdir()
    for name, lines in {
        "srun": [
            "unset NUMBA_CACHE_DIR  # these kernels are compiled",
            "shift 2",
            'echo "$@" >> slurm/started',
            "[ ! -e slurm/stop ] || exit 3",
            'mpirun -n 2 "$@"',
        ],
        "scontrol": ['echo "$@" >> slurm/requeued'],
    }.items():
        (tools / name).write_text("\n".join(["#!/bin/sh", *lines, ""]))
        (tools / name).chmod(0o755)
    job = shlex.quote(str(REPOSITORY / "demos" / "slurm" / "job.sh"))
    given = 'export PATH="$PWD/slurm:$PATH" SLURM_CPUS_PER_TASK=1 SLURM_JOB_ID=7; source() { :; }; set --'
    given += " params/natural_images.toml runs/slurm"
    in_site(site, "bash", "-c", f"{given}; . {job}")
    assert not (tools / "requeued").exists()
    (tools / "stop").touch()
    in_site(site, "bash", "-c", f"({given}; . {job}); [ $? -eq 3 ]")
    assert (tools / "requeued").read_text() == "requeue 7\n"
    first, second = (tools / "started").read_text().splitlines()
    assert first.startswith("petabatch run params/natural_images.toml --out runs/slurm")
    assert second.startswith("petabatch resume runs/slurm")


@functools.cache
def options(verb: str) -> set[str]:
    """Return the options that `petabatch VERB --help` names."""
    shown = CliRunner().invoke(cli.app, [verb, "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, f"petabatch {verb}: {shown.output}"
    return set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", shown.output.replace(",", " ").replace("/", " ")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_commands_within_lines_exist_with_their_options(page: Path) -> None:
    for command in docs.inline_commands(page):
        verb, *words = shlex.split(re.sub(r"[][]", "", command).partition("petabatch ")[2])
        if not verb.startswith("-"):
            given = {word.partition("=")[0] for word in words if word.startswith("-")}
            assert given <= options(verb), command
