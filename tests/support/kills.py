"""A campaign of kills: the two-layer network is killed at random moments and resumed, with the same bits.

    python tests/support/kills.py --times 20
    python tests/support/kills.py --times 10 --ranks 3 --networks 20
    python tests/support/kills.py --times 10 --ranks 4 --split rows     # or features: two ranks share a slice
    python tests/support/kills.py --times 20 --ranks 3 --format zarr
    python tests/support/kills.py --times 20 --ranks 3 --synapses       # which learn at spikes, in its place

Both codes are recorded, both dictionaries learn, checkpoints are written every 5 displays. With ranks, runs
are started and resumed on 1 to that many, and either all processes or one rank alone are killed. After each
kill, the files are verified, and what the run has recorded is merged: it must be the beginning of an
uninterrupted run. When it has finished, every dataset of the run file and of the last checkpoint must be byte
for byte that of an uninterrupted run. `--networks` repeats this with random shapes, recordings and schedules.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import petabatch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from petabatch.report.integrity import verify  # noqa: E402
from petabatch.storage.merge import merge  # noqa: E402
from support.commands import BIN, contents  # noqa: E402
from support.processes import PATIENCE, descendants, wait_for_end  # noqa: E402

SETTINGS: dict[str, Callable[[random.Random], object]] = {
    "run.batch": lambda r: r.randint(3, 5),
    "run.display": lambda r: r.randint(4, 12),
    "run.seed": lambda r: r.randint(1, 99),
    "layers.{V1,V1error,V1recon}.shape": lambda r: [16, 16, r.choice((24, 40, 128))],
    "layers.V2.shape": lambda r: [8, 8, r.choice((32, 50, 256))],
    "layers.V1.threshold": lambda r: round(r.uniform(0.1, 0.6), 2),
    "connections.dictionary.learn.momentum": lambda r: round(r.uniform(0, 0.9), 2),
    "output.flush": lambda r: f"{r.randint(1, 4)} displays",
    "output.layers.V2.every": lambda r: f"{r.randint(3, 30)} steps",
    "checkpoint.every": lambda r: f"{r.randint(2, 7)} displays",
    "checkpoint.keep": lambda r: r.randint(1, 3),
}
"""What `--networks` varies."""

OUTPUT = """
[output]
flush = "2 displays"

[output.layers]
V1 = { variables = ["A", "V"] }
V2 = { variables = ["A", "V"] }

[output.connections]
dictionary = {}
dictionary2 = {}

[checkpoint]
every = "5 displays"
"""


def write_params(folder: Path, displays: int) -> Path:
    """Write the two-layer network, smaller and plastic, and return its file."""
    text = (ROOT / "params" / "two_layer.toml").read_text()
    changes = {
        "batch = 16\ndisplay = 400\ndisplays = 1\n": f"batch = 3\ndisplay = 10\ndisplays = {displays}\n",
        'pre = "V1"\npost = "recon"\n': 'pre = "V1"\npost = "recon"\n'
        'learn = { type = "hebbian", error = "error", rate = 0.1, momentum = 0.5 }\n',
        'pre = "V2"\npost = "V1recon"\n': 'pre = "V2"\npost = "V1recon"\n'
        'learn = { type = "hebbian", error = "V1error", rate = 0.1 }\n',
    }
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = folder / "two_layer.toml"
    file.write_text(text + OUTPUT)
    return file


SYNAPSES = """
[run]
batch = 5
display = 200
displays = {displays}
dt = 0.1

[layers.given]
type = "poisson"
shape = [1, 1, 60]
rate = 0.05

[layers.units]
type = "neurons"
shape = [1, 1, 200]
equations = "dv/dt = -v / 10"
spike = "v > 1"
reset = "v = 0"

[connections.alone]
type = "sparse"
pre = "given"
post = "units"
target = "v"
probability = 0.5
mode = "non_shared"
per_slice = true
delays = {{ type = "uniform", low = 0.0, high = 3.0 }}
init = {{ type = "uniform", low = 0.0, high = 0.2 }}
learn = {{ type = "stdp", a_plus = 0.01, a_minus = 0.0105, largest = 0.3 }}

[connections.together]
type = "sparse"
pre = "units"
post = "units"
target = "v"
probability = 0.1
init = {{ type = "gaussian", std = 0.05 }}

[connections.together.learn]
type = "synapses"
on_pre = "x += 1; c -= y; w -= 0.001 * y; delivered = w * exp(-x)"
on_post = "y += 1; c += x; w += 0.001 * c"
traces = {{ x = 20.0, y = 20.0, c = 50.0 }}
bounds = [-0.2, 0.2]

[output]
flush = "2 displays"

[output.layers]
units = {{ every = 20, variables = ["spikes", "v"] }}

[output.connections]
alone = {{ variables = ["weights", "x", "y"] }}
together = {{ variables = ["weights", "c"] }}

[checkpoint]
every = "70 steps"
"""


def write_synapses(folder: Path, displays: int) -> Path:
    """Write a network of synapses that learn in each slice, and in all together; return its file."""
    file = folder / "synapses.toml"
    file.write_text(SYNAPSES.format(displays=displays))
    return file


class Campaign:
    """Runs of one params file that are killed and resumed."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        displays: int = 30,
        varied: bool = False,
        split: str | None = None,
        form: str = "hdf5",
        write: Callable[[Path, int], Path] = write_params,
    ) -> None:
        self._parts = 1 if split is None else 2
        self.folder, self.random, self.file = folder, random.Random(seed), write(folder, displays)
        values = {key: draw(self.random) for key, draw in SETTINGS.items()} if varied else {}
        self.settings = [
            text for key, value in values.items() for one in _keys(key) for text in ("-s", f"{one}={value}")
        ]
        if split is not None:
            self.settings += ["-s", f"parallel.{split}={self._parts}"]
        self.settings += ["-s", f"output.format={form}"] if form != "hdf5" else []
        begin = time.monotonic()
        whole = self._start(self._parts, "run", self.file.name, "--out", "whole", *self.settings)
        assert whole.wait() == 0
        self.span = time.monotonic() - begin
        """Seconds that a run takes."""
        self.expected = self._result("whole")

    def run(self, times: int, ranks: int = 1) -> Iterator[str]:
        """Kill and resume a run until it has been killed so often and is done; yield what was done."""
        kills = 0
        process = self._begin(ranks)
        while True:
            wait = self.random.random() * self.span * (2 if ranks > 1 else 1) if kills < times else 300
            try:
                code, what = process.wait(wait), "ended"
            except subprocess.TimeoutExpired:
                assert kills < times, "the run does not end"
                what = self._kill(process, ranks)
                code = process.returncode
            state = self._state()
            self._merge()
            if code == 0:  # it was done, maybe just before it was killed
                self._compare()
                if kills >= times:
                    return
            else:
                assert what != "ended", f"exit code {code} after {kills} kills"
                yield f"{what} after {wait:.2f} s, {state}"
                kills += 1
            if code != 0 and (self.folder / "cut").exists() and not state.startswith("done"):
                process = self._resume(ranks)
            else:
                process = self._begin(ranks)

    def _begin(self, ranks: int) -> subprocess.Popen[bytes]:
        some = self._some(ranks)
        return self._start(some, "run", self.file.name, "--out", "cut", "--force", *self.settings)

    def _resume(self, ranks: int) -> subprocess.Popen[bytes]:
        return self._start(self._some(ranks), "resume", "cut")

    def _some(self, ranks: int) -> int:
        """Return a number of ranks, up to so many."""
        return self._parts * self.random.randint(1, ranks // self._parts)

    def _start(self, ranks: int, *arguments: str) -> subprocess.Popen[bytes]:
        launcher = [BIN / "mpirun", "-n", str(ranks)] if ranks > 1 else []
        return subprocess.Popen([*launcher, BIN / "petabatch", *arguments, "-q"], cwd=self.folder)

    def _kill(self, process: subprocess.Popen[bytes], ranks: int) -> str:
        """Kill a run, all of its processes or one of its ranks; return what was killed."""
        family = descendants(process.pid)
        leaves = [pid for pid in family if not descendants(pid)]
        alone = ranks > 1 and len(leaves) > 1 and self.random.random() < 0.5
        for pid in leaves[:1] if alone else [process.pid, *family]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait(PATIENCE)
        wait_for_end(family)
        return "one rank killed" if alone else "killed"

    def _state(self) -> str:
        """Say how far the run had come; what is there can be read."""
        cut = self.folder / "cut"
        if not any((cut / name).exists() for name in ("run.h5", "run.zarr/zarr.json")):
            return "before there was a run file"
        with petabatch.open(self.folder / "cut") as run:
            status = run.status
        checkpoints = sorted((self.folder / "cut" / "checkpoints").glob("step_?????????.h5"))
        return f"{status}, " + (f"checkpoint {checkpoints[-1].stem}" if checkpoints else "no checkpoint")

    def _merge(self) -> None:
        """Verify the files that a kill has left, and compare what has been recorded."""
        if not (self.folder / "cut" / "run.json").exists():
            return
        text, whole = verify(self.folder / "cut", repairing=False)
        assert whole, text
        (self.folder / "merged.h5").unlink(missing_ok=True)
        merged = contents(merge(self.folder / "cut", self.folder / "merged.h5"))
        different = [
            name
            for name, data in merged.items()
            # which recordings share a time depends on how many there are
            if "/time" not in name and not self.expected[name].startswith(data)
        ]
        assert not different, different

    def _result(self, out: str) -> dict[str, bytes]:
        last = max((self.folder / out / "checkpoints").glob("step_?????????.h5"))
        state = {f"{last.name}/{name}": data for name, data in contents(last).items()}
        (self.folder / "whole.h5").unlink(missing_ok=True)
        return {**contents(merge(self.folder / out, self.folder / "whole.h5")), **state}

    def _compare(self) -> None:
        found = self._result("cut")
        assert found.keys() == self.expected.keys()
        different = [name for name, data in self.expected.items() if found[name] != data]
        assert not different, different


def _keys(pattern: str) -> list[str]:
    """Return the keys that braces, as a shell expands them, stand for."""
    before, _, rest = pattern.partition("{")
    names, _, after = rest.partition("}")
    return [before + name + after for name in names.split(",")] if rest else [pattern]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="kills")
    parser.add_argument("--ranks", type=int, default=1, help="at most")
    parser.add_argument("--networks", type=int, default=1, help="random variations, each killed so often")
    parser.add_argument("--split", choices=("features", "rows"), help="what two ranks share a slice by")
    parser.add_argument("--format", choices=("hdf5", "zarr"), default="hdf5", help="output.format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--synapses", action="store_true", help="a network of synapses that learn")
    chosen = parser.parse_args()
    write = write_synapses if chosen.synapses else write_params
    with tempfile.TemporaryDirectory() as place:
        # compiles the kernels, which is no part of `span`
        Campaign(Path(place), chosen.seed, displays=1, split=chosen.split, form=chosen.format, write=write)
    for number in range(chosen.networks):
        with tempfile.TemporaryDirectory() as place:
            varied = chosen.networks > 1
            seed, split, form = chosen.seed + number, chosen.split, chosen.format
            campaign = Campaign(Path(place), seed, varied=varied, split=split, form=form, write=write)
            print(*campaign.settings)
            for line in campaign.run(chosen.times, chosen.ranks):
                print(line, flush=True)
    kills = chosen.times * chosen.networks
    print(f"{kills} kills on 1 to {chosen.ranks} ranks: every dataset is that of an uninterrupted run")
