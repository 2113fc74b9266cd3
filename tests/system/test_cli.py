"""The command line, end to end: running, stopping, resuming, errors and reports."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from petabatch import cli, simulation
from petabatch.errors import InputError, RunDirectoryError
from petabatch.report import draw as drawing
from petabatch.report.information import describe
from petabatch.version import __version__
from support.commands import BIN, Command, alone, contents, set_all
from support.processes import PATIENCE, newest_checkpoint, wait_for_checkpoint, with_gate

REPOSITORY = Path(__file__).parents[2]


def test_a_run_leaves_what_the_docs_promise(small: Path, petabatch: Command) -> None:
    done = petabatch("run", small, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "display 6 of 6" in done.stderr
    out = small.parent / "out"
    assert {entry.name for entry in out.iterdir()} == {
        "run.h5", "parts", "checkpoints", "params.toml", "params.json", "inputs.json", "log.txt", "run.json",
    }  # fmt: skip
    assert (out / "params.toml").read_text() == small.read_text()
    found = contents(out / "run.h5")
    assert len(found["probes/energy/total"]) == 12 * 3 * 8
    assert len(found["connections/dictionary/weights"]) == 7 * 8 * 4 * 4 * 3 * 4
    shown = petabatch("info", "out")
    assert "done: step 60 of 60" in shown.stdout
    again = petabatch("resume", "out")
    assert again.returncode == 1
    assert "this run is already done" in again.stderr


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "petabatch", "--version"], capture_output=True, text=True)
    assert done.stdout == f"petabatch {__version__}\n"


def test_paths_may_be_strings(small: Path) -> None:
    out = str(small.parent / "strings")
    simulation.run(simulation.read(str(small)), out, quiet=True)
    log = Path(out, "log.txt").read_bytes()
    with pytest.raises(RunDirectoryError, match="already done"):
        simulation.resume(out, quiet=True)
    assert Path(out, "log.txt").read_bytes() == log


def test_an_existing_directory_is_kept_unless_forced(small: Path, petabatch: Command) -> None:
    before = contents(alone(small, "out") / "run.h5")
    refused = petabatch("run", small, "--out", "out", "-s", "run.seed=2")
    assert refused.returncode == 1
    assert "--force" in refused.stderr
    assert contents(small.parent / "out" / "run.h5") == before
    assert petabatch("run", small, "--out", "out", "-s", "run.seed=2", "--force").returncode == 0
    assert contents(small.parent / "out" / "run.h5") != before


def test_overrides_act_and_are_checked(small: Path, petabatch: Command) -> None:
    assert petabatch("run", small, "--out", "out", "-s", "run.displays=2").returncode == 0
    assert json.loads((small.parent / "out" / "params.json").read_text())["run"]["displays"] == 2
    wrong = petabatch("run", small, "--out", "other", "-s", "layers.V1.treshold=0.1")
    assert wrong.returncode == 2
    assert "did you mean threshold?" in wrong.stderr
    assert "-s layers.V1.treshold=0.1" in wrong.stderr
    assert not (small.parent / "other").exists()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long), signal.SIGUSR1]
)
def test_a_signal_stops_with_exit_3_and_resume_gives_the_same_bits(
    small: Path, petabatch: Command, number: signal.Signals
) -> None:
    held, gate = with_gate(small, 30)
    process = start(held, "cut", "-s", "run.displays=9")
    wait_for_checkpoint(small.parent / "cut", 30, process)
    process.send_signal(number)
    gate.unlink()
    assert process.wait(PATIENCE) == 3
    assert "stopped" in describe(small.parent / "cut")
    assert petabatch("resume", "cut", "-q").returncode == 0
    expected = contents(alone(small, "whole", "run.displays=9") / "run.h5")
    assert contents(small.parent / "cut" / "run.h5") == expected


@pytest.mark.long
def test_killed_at_eight_random_moments_it_resumes_with_the_same_bits(
    small: Path,
) -> None:
    alone(small, "whole", "run.displays=100")
    rng = random.Random(1)
    cut = small.parent / "cut"
    process = start(small, "cut", "-s", "run.displays=100")
    kills = 0
    while kills < 8:
        wait_for_steps(rng.randint(0, 100), cut, process)
        time.sleep(0.02 * rng.random())
        if process.poll() is None:
            process.kill()
            process.wait()
            kills += 1
            if cut.exists():
                describe(cut)
        else:  # finished early: start again, so that all eight kills hit a run
            assert process.returncode == 0
            assert contents(cut / "run.h5") == contents(small.parent / "whole/run.h5")
            shutil.rmtree(cut)
        process = (
            subprocess.Popen([BIN / "petabatch", "resume", "cut", "-q"], cwd=small.parent)
            if cut.exists()
            else start(small, "cut", "-s", "run.displays=100")
        )
    assert process.wait(PATIENCE) == 0
    assert contents(cut / "run.h5") == contents(small.parent / "whole" / "run.h5")


def wait_for_steps(number: int, cut: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until the newest checkpoint of a run is `number` steps later than now, or the run has ended."""
    end = newest_checkpoint(cut) + number
    while process.poll() is None and newest_checkpoint(cut) < end:
        time.sleep(0.001)


def test_help_of_all_verbs_is_alike_and_names_no_type_of_flags(petabatch: Command) -> None:
    for verb, flag in (("info", "--watch"), ("run", "--force"), ("encode", "--force")):
        shown = petabatch(verb, "--help").stdout
        assert flag in shown
        assert f" petabatch {verb} [OPTIONS]" in shown
        assert "<bool>" not in shown
    assert "Invalid value for --watch: needs a run" in petabatch("info", "--watch").stderr


def test_help_lists_every_verb_in_a_group(petabatch: Command) -> None:
    assert all(isinstance(verb.rich_help_panel, str) for verb in cli.app.registered_commands)
    shown = petabatch("--help").stdout
    assert "─ Look at a run ─" in shown
    assert "─ Commands ─" not in shown


def test_check_draw_and_schema_print(small: Path, petabatch: Command) -> None:
    checked = petabatch("check", small, "--explain")
    assert checked.returncode == 0
    for words in (
        "level 2    V1 <- + drive(error)",
        "feedback",
        "FLOP per step and slice",
        "every 10 steps",
        "KiB per slice",
    ):
        assert words in checked.stdout
    assert "recon -.->" in petabatch("draw", small).stdout
    assert petabatch("draw", small, "-o", "net.svg").returncode == 0
    graph = simulation.plan(simulation.read(small)).graph
    for name in ("net.png", "net.mmd"):
        drawing.draw(graph, small.parent / name)
    for name in ("net.svg", "net.png", "net.mmd"):
        assert (small.parent / name).stat().st_size > 100
    wrong = petabatch("draw", small, "-o", "net.foo")
    assert wrong.returncode == 1
    assert wrong.stderr.startswith(
        "net.foo: unsupported format\n    found:    .foo\n    expected: .mmd, .md, "
    )
    schema = json.loads(petabatch("schema").stdout)
    references: list[str] = []

    def walk(node: object) -> None:
        if isinstance(node, dict):
            references.extend(value for key, value in node.items() if key == "$ref")
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(schema)
    assert references
    assert {reference.removeprefix("#/$defs/") for reference in references} <= schema["$defs"].keys()


def test_python_params_files_run_and_resume(small: Path, petabatch: Command) -> None:
    script = small.with_suffix(".py")
    script.write_text(
        "import petabatch\n"
        "from petabatch.layers import Constant, Linear\n"
        "from petabatch.connections import Identity\n"
        "from petabatch.spec.network import Run\n"
        "network = petabatch.Network(run=Run(steps=5, batch=2),"
        "connections={'c': Identity(pre='one', post='sum')},"
        "layers={'one': Constant(shape=(2, 2, 1), value=1), 'sum': Linear(shape=(2, 2, 1))})\n"
    )
    assert petabatch("run", script, "--out", "out").returncode == 0, petabatch("run", script).stderr
    script.write_text("x = 1 / 0\n")
    wrong = petabatch("run", script, "--out", "other")
    assert wrong.returncode == 2
    assert "small.py:1: ZeroDivisionError" in wrong.stderr


def test_missing_and_broken_input_is_named(small: Path) -> None:
    images = small.parent / "images.npy"
    data = np.load(images)
    whole = images.read_bytes()
    for name, spoil in {
        "missing": lambda: images.unlink(),
        "truncated": lambda: images.write_bytes(whole[: len(whole) // 2]),
        "not a number": lambda: np.save(
            images, np.where(np.arange(data.size).reshape(data.shape) == 999, np.nan, data)
        ),
        "wrong shape": lambda: np.save(images, data[:, :5]),
    }.items():
        spoil()
        with pytest.raises(InputError, match=r"toml:10: layers\.image\.source\.file: .*images\.npy") as e:
            alone(small, "out")
        assert e.value.exit_code == 2, name
        images.write_bytes(whole)
    assert not (small.parent / "out").exists()


def test_a_drawing_on_a_full_disk_is_named(small: Path, petabatch: Command) -> None:
    for name in ("full.mmd", "full.svg"):
        (small.parent / name).symlink_to("/dev/full")
        found = petabatch("draw", small, "-o", name)
        assert (found.returncode, found.stdout) == (1, "")
        assert found.stderr.startswith(f"{name}: the ")
        assert found.stderr.endswith("cannot be written: No space left on device\n")


def test_an_unwritable_place_is_named(small: Path, petabatch: Command) -> None:
    (small.parent / "file").write_text("")
    failed = petabatch("run", small, "--out", "file/out")
    assert failed.returncode == 1
    assert "cannot create the run directory" in failed.stderr


def test_a_network_that_blows_up_says_where(small: Path, petabatch: Command) -> None:
    failed = petabatch(
        "run", small, "--out", "out", "-s", "layers.V1.tau=0.1", "-s", "connections.dictionary.strength=9"
    )
    assert failed.returncode == 1
    assert "slice 0" in failed.stderr
    assert "finite" in failed.stderr
    assert "Warning" not in failed.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_keeps_the_last_checkpoint(small: Path, petabatch: Command, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700k", "none", disk], check=False).returncode:
        pytest.skip("tmpfs cannot be mounted here")
    try:
        more = ("run.displays=20", "output.layers.V1.every=1")
        failed = petabatch("run", small, "--out", disk / "out", *set_all(*more))
        assert failed.returncode == 1
        assert "No space left" in failed.stderr
        assert "Traceback" not in failed.stderr
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        resumed = petabatch("resume", disk / "out", "-q")
        assert resumed.returncode == 0, resumed.stderr
        assert contents(disk / "out" / "run.h5") == contents(alone(small, "whole", *more) / "run.h5")
    finally:
        subprocess.run(["umount", disk], check=True)


SELDOM = ["output.flush=20 displays", "checkpoint.every=20 displays"]
"""Keeps the index, which grows up to 256 segments, small compared with a leak."""


@pytest.mark.slow
@pytest.mark.long
def test_memory_does_not_grow_with_the_length_of_a_run(small: Path) -> None:
    def peak(displays: int) -> int:
        code = (
            "import resource, sys; from pathlib import Path; from petabatch import simulation;"
            f"loaded = simulation.read(Path('small.toml'), ['run.displays={displays}', *{SELDOM}]);"
            f"simulation.run(loaded, Path('m{displays}'));"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run(
            [BIN / "python", "-c", code], cwd=small.parent, capture_output=True, text=True, check=True
        )
        return int(done.stdout)

    short, long = peak(60), peak(600)
    assert long < 1.05 * short


def start(small: Path, out: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [BIN / "petabatch", "run", small, "--out", out, "-q", *arguments], cwd=small.parent
    )


def test_a_running_run_is_neither_resumed_nor_replaced_by_another_process(
    small: Path, petabatch: Command
) -> None:
    held, gate = with_gate(small, 20)
    process = start(held, "out")
    wait_for_checkpoint(small.parent / "out", 20, process)
    both = petabatch("resume", "out"), petabatch("run", small, "--out", "out", "--force")
    process.terminate()
    gate.unlink()
    assert process.wait(PATIENCE) == 3
    for refused in both:
        assert refused.returncode == 1
        assert "another process is running in this directory" in refused.stderr
