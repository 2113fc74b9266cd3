"""One run on any number of ranks, with real mpirun: the same bits, and failures that end all ranks."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
from pathlib import Path

import pytest

from petabatch import results
from support.commands import BIN, Command, alone, contents, set_all
from support.processes import PATIENCE, kill_all, wait_for_checkpoint, with_gate

pytestmark = pytest.mark.mpi


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("mode", "ranks"),
    [
        *((mode, 3) for mode in ("extra_shared", "non_shared")),
        *(pytest.param(mode, 3, marks=pytest.mark.long) for mode in ("shared", "extra_non_shared")),
        *(pytest.param("extra_shared", ranks, marks=pytest.mark.long) for ranks in (1, 2, 4)),
    ],
)
def test_every_dataset_has_the_same_bits_on_any_number_of_ranks(
    small: Path, petabatch: Command, mode: str, ranks: int
) -> None:
    own = f'mode = "{mode}"\ndecorrelate = 0.1\n'
    if mode in ("extra_shared", "shared"):
        own += "revive = { after = 1 }\n"
    text = small.read_text().replace("patch = [4, 4]\n", f"patch = [4, 4]\n{own}")
    small.write_text(text.replace("dictionary = {}", 'dictionary = { variables = ["weights", "usage"] }'))
    # So high a threshold that some features are not active at first, and start again.
    more = ("run.batch=7", "run.displays=4", "layers.V1.threshold=2.3")
    flags = set_all(*more)
    done = petabatch("run", small, "--out", "ranks", "-q", "--threads", 1, *flags, ranks=ranks)
    assert done.returncode == 0, done.stderr
    expected = contents(alone(small, "one", *more, threads=2) / "run.h5")
    assert contents(small.parent / "ranks" / "run.h5") == expected


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.long)])
def test_statistics_of_the_rule_online_have_the_same_bits_on_any_number_of_ranks(
    small: Path, petabatch: Command, ranks: int
) -> None:
    text = small.read_text().replace("patch = [4, 4]\n", "patch = [2, 2]\n")
    rule = 'learn = { type = "online", input = "image" }'
    small.write_text(re.sub(r"learn = .*", rule, text))
    # So high a threshold that some features are not active at first, and are replaced.
    more = ("run.batch=7", "run.displays=4", "layers.V1.threshold=1.3")
    flags = set_all(*more)
    done = petabatch("run", small, "--out", "ranks", "-q", "--threads", 1, *flags, ranks=ranks)
    assert done.returncode == 0, done.stderr
    expected = contents(alone(small, "one", *more, threads=2) / "run.h5")
    assert contents(small.parent / "ranks" / "run.h5") == expected


@pytest.mark.long
@pytest.mark.parametrize("reduce", ["exact", pytest.param("overlapped", marks=pytest.mark.long)])
def test_killed_on_two_ranks_and_resumed_on_three(small: Path, petabatch: Command, reduce: str) -> None:
    more = ("run.batch=8", "run.displays=30", f"run.reduce={reduce}", "run.verify=2")
    flags = set_all(*more)
    held, gate = with_gate(small, 50)
    process = subprocess.Popen(
        [BIN / "mpirun", "-n", "2", BIN / "petabatch", "run", held, "--out", "cut", "-q", *flags],
        cwd=small.parent,
        stderr=subprocess.DEVNULL,
    )
    wait_for_checkpoint(small.parent / "cut", 50, process)
    kill_all(process)
    assert process.returncode != 0
    gate.unlink()
    done = petabatch("resume", "cut", "-q", ranks=3)
    assert done.returncode == 0, done.stderr
    expected = contents(alone(small, "one", *more) / "run.h5")
    assert contents(small.parent / "cut" / "run.h5") == expected


def test_sigterm_to_mpirun_stops_all_ranks_with_a_checkpoint(small: Path, petabatch: Command) -> None:
    more = ("-s", "run.displays=40000")
    process = subprocess.Popen(
        [BIN / "mpirun", "-n", "2", BIN / "petabatch", "run", small, "--out", "cut", "-q", *more],
        cwd=small.parent,
        stderr=subprocess.DEVNULL,
    )
    wait_for_checkpoint(small.parent / "cut", 50, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 3
    assert "stopped" in petabatch("info", "cut").stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("threshold", "threshhold"),
        pytest.param("images.npy", "nothing.npy", marks=pytest.mark.long),
    ],
)
def test_an_error_that_all_ranks_find_is_printed_once_as_on_one_rank(small: Path, old: str, new: str) -> None:
    """However long they take: rank 0 is the last to find it."""
    (small.parent / "sitecustomize.py").write_text(
        "import os, time\nif os.environ.get('PMI_RANK') == '0':\n    time.sleep(2)\n"
    )
    small.write_text(small.read_text().replace(old, new, 1))
    environment = {**os.environ, "PYTHONPATH": str(small.parent), "COLUMNS": "200"}
    command = [BIN / "petabatch", "run", small, "--out", "out"]
    found = [
        subprocess.run(
            [*launcher, *command], cwd=small.parent, capture_output=True, text=True, env=environment
        )
        for launcher in ([], [BIN / "mpirun", "-n", "3"])
    ]
    assert [one.returncode for one in found] == [2, 2]
    assert found[1].stderr == found[0].stderr


def test_an_error_of_some_ranks_only_names_them(small: Path, petabatch: Command) -> None:
    """Here of rank 2, while the others wait for it in a collective operation."""
    (small.parent / "faulty.py").write_text(
        "import os\nfrom petabatch.parallel import failure\n"
        "failure._AGREEMENT = 1\n"
        "if os.environ['PMI_RANK'] == '2':\n    raise ValueError('not on this host')\n"
    )
    small.write_text('plugins = ["faulty.py"]\n' + small.read_text())
    failed = petabatch("run", small, "--out", "out", ranks=3)
    assert failed.returncode == 2
    assert failed.stderr.startswith(f"rank 2 of 3 (on {platform.node()}): ")
    assert failed.stderr.count("not on this host") == 1


def test_an_error_on_one_rank_ends_all_with_its_message(small: Path, petabatch: Command) -> None:
    plugin = small.parent / "faulty.py"
    plugin.write_text(
        "from typing import Literal\n"
        "from petabatch.layers import Linear\n"
        "class Faulty(Linear):\n"
        "    type: Literal['faulty'] = 'faulty'\n"
        "    def update(self, now, state, drive, previous, activity):\n"
        "        if now.step == 25 and 2 in now.slices:\n"
        "            raise ValueError('slice two gave up')\n"
        "        super().update(now, state, drive, previous, activity)\n"
    )
    text = small.read_text().replace('[layers.recon]\ntype = "linear"', '[layers.recon]\ntype = "faulty"')
    small.write_text('plugins = ["faulty.py"]\n' + text)
    failed = petabatch("run", small, "--out", "out", "-q", ranks=3)
    assert failed.returncode != 0
    assert "rank 2 of 3" in failed.stderr
    assert "slice two gave up" in failed.stderr
    assert (small.parent / "out" / "checkpoints" / "step_000000020.h5").exists()


def test_what_the_time_of_each_rank_went_into_is_recorded_and_shown(small: Path, petabatch: Command) -> None:
    plugin = small.parent / "slow.py"
    plugin.write_text(
        "import time\n"
        "from typing import Literal\n"
        "from petabatch.layers import Linear\n"
        "class Slow(Linear):\n"
        "    type: Literal['slow'] = 'slow'\n"
        "    def update(self, now, state, drive, previous, activity):\n"
        "        time.sleep(0.02 * (2 in now.slices))\n"
        "        super().update(now, state, drive, previous, activity)\n"
    )
    text = small.read_text().replace('[layers.recon]\ntype = "linear"', '[layers.recon]\ntype = "slow"')
    small.write_text('plugins = ["slow.py"]\n' + text)
    done = petabatch("run", small, "--out", "out", "-q", "--threads", 1, ranks=2)
    assert done.returncode == 0, done.stderr
    with results.open(small.parent / "out") as run:
        times = run.attributes["rank_times"]
    slow = 60 * 0.02
    assert times["steps"][1] > slow
    assert times["waiting for ranks"][0] > slow / 2
    for rank in (0, 1):
        assert (
            sum(column[rank] for name, column in times.items() if name != "all") < 1.05 * times["all"][rank]
        )
    page = petabatch("info", "out").stdout
    assert re.search(r"rank +host +computing +images +ranks +communication +files +kernels +other\n", page)
    assert re.search(r"\n +1 +\S+ +\d+\.\d %", page)
    with results.open(alone(small, "one")) as run:
        assert "rank_times" not in run.attributes


def test_more_ranks_than_slices_are_refused(small: Path, petabatch: Command) -> None:
    refused = petabatch("run", small, "--out", "out", ranks=4)
    assert refused.returncode != 0
    assert "found:    4 ranks, 3 slices" in refused.stderr
    assert not (small.parent / "out").exists()


def test_wall_limit_stops_with_exit_3(small: Path, petabatch: Command) -> None:
    stopped = petabatch("run", small, "--out", "out", "-s", "run.displays=100000", "-s", "run.wall_limit=1s")
    assert stopped.returncode == 3
    assert "petabatch resume" in stopped.stderr
