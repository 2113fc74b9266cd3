"""A campaign on several hosts: the same bits on 1, 2 and 4, lost hosts, and hosts that differ.

    python tests/support/several_hosts.py
    python tests/support/several_hosts.py --mpirun /opt/openmpi/bin/mpirun
    python tests/support/several_hosts.py --split rows    # or features: two hosts share each slice
    python tests/support/several_hosts.py --short         # two hosts, one of which is lost, and refusals

Hosts are network namespaces with links of 1 Gbit/s and 100 Mbit/s (`support/hosts.py`). The network has a
dictionary of each weight mode, and all learn. Every dataset of the run file and of the last checkpoint must
be byte for byte that of one process. With `--split`, two ranks share each slice of a network
with one dictionary, by rows or features, and the bytes are those of two ranks on one host.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import petabatch.version  # noqa: E402
from petabatch.storage.directory import RunDirectory  # noqa: E402
from support.commands import BIN, SMALL, alone, contents  # noqa: E402
from support.docs import toml  # noqa: E402
from support.hosts import MPIRUN, Hosts, NoHosts, is_open_mpi, open_mpi_library  # noqa: E402
from support.processes import PATIENCE, newest_checkpoint, wait_for_checkpoint  # noqa: E402

MODES = ("extra_shared", "shared", "extra_non_shared", "non_shared")
DISPLAYS, SLICES = 400, 4
SUMMED = 8 * (1 + 36) * 4 * 4 * 8 * 3
"""Bytes of the integers that an update of both dictionaries that all slices share sums over ranks."""
SILENCE = 15
"""Seconds without a heartbeat after which all ranks end (docs/ranks.md)."""
ENDING = 60
"""Seconds within which a run ends once it is known that a rank is lost; a few, unless the machine is busy."""


class Campaign:
    """Runs of one params file on several hosts."""

    def __init__(
        self, folder: Path, mpirun: Path = MPIRUN, displays: int = DISPLAYS, split: str | None = None
    ) -> None:
        self.folder, self._mpirun, self._displays = folder, mpirun, displays
        self._environment = {**open_mpi_library(mpirun), "PYTHONPATH": str(ROOT)}
        self.file = folder / "modes.toml"
        self._parts = 1 if split is None else 2
        parallel = {} if split is None else {"parallel": {split: self._parts}}
        self.file.write_text(four_modes(displays, MODES if split is None else MODES[:1]) + toml(parallel))
        images = np.random.default_rng(3).normal(size=(7, 12, 12, 3))
        np.save(folder / "images.npy", (images + np.roll(images, 1, axis=2)).astype(np.float32))
        if split is None:
            alone(self.file, "expected")
        else:
            ranks = [mpirun, "-n", str(self._parts), BIN / "petabatch"]
            command = [*ranks, "run", self.file.name, "--out", "expected", "-q", "--threads", "1"]
            subprocess.run(command, cwd=folder, check=True, env={**os.environ, **self._environment})
        self._expected = _results(folder / "expected")

    def same_bits(self, number: int, rate: str) -> str:
        """Run on `number` hosts with links of this rate."""
        with self._hosts(number, rate) as hosts:
            begin = time.monotonic()
            self._finish(hosts, range(number), "run", self.file.name, "--out", "whole", "--force")
            seconds = time.monotonic() - begin
            sent = [hosts.sent(host) for host in range(number)]
        least = self._displays * SUMMED if number > 1 and self._parts == 1 else 0
        assert min(sent) >= least, f"{min(sent)} bytes over a link, {least} expected: the rest went elsewhere"
        self._compare("whole")
        return f"{number} hosts, {rate}: same bits in {seconds:.1f} s, {max(sent) / 1e6:.1f} MB over a link"

    def lost(self, number: int, host: int, how: str, left: Sequence[int]) -> str:
        """Lose one of `number` hosts during a run, and resume the run on hosts `left`."""
        shutil.rmtree(self.folder / "cut", ignore_errors=True)
        with self._hosts(number, "1gbit") as hosts:
            process = self._start(hosts, range(number), "run", self.file.name, "--out", "cut")
            self._wait(process, "cut")
            {"link cut": hosts.cut, "processes killed": hosts.kill}[how](host)
            begin = time.monotonic()
            while any(hosts.processes(one, "python") for one in range(number)):
                assert time.monotonic() < begin + PATIENCE, "ranks outlive the run"
                time.sleep(0.05)
            seconds = time.monotonic() - begin
            if newest_checkpoint(self.folder / "cut") == 10 * self._displays:  # it was done before
                process.communicate(timeout=PATIENCE)
                return self.lost(number, host, how, left)
            told, launcher = self._end(process, hosts)
            promised = ENDING + (SILENCE if how == "link cut" else 0)
            assert seconds < promised, f"it took {seconds:.0f} s until all had ended\n{told}"
            self._finish(hosts, left, "resume", "cut")
        self._compare("cut")
        where = f"{number} hosts, {hosts.names[host]} lost ({how})"
        said = next((line for line in told.splitlines() if "is stuck" in line), "").strip()
        resumed = f"resumed on {len(left)} with the same bits"
        return f"{where}: all ended after {seconds:.1f} s{launcher}, {resumed}  {said}"

    def script(self) -> str:
        """Cut off one of the two hosts on which `demos/hosts/run.sh` has started a run."""
        (self.folder / "hosts.txt").write_text("10.77.0.1\n10.77.0.2\n")
        with self._hosts(2, "1gbit") as hosts:
            path = f"{hosts.launcher.parent}:{os.environ['PATH']}"
            own = {"PATH": path, "VENV": str(BIN.parent), "MPIRUN_OPTIONS": "-iface eth0"}
            run = [ROOT / "demos" / "hosts" / "run.sh", "hosts.txt", self.file.name, "script"]
            process = hosts.start(0, run, self.folder, {**self._environment, **own})
            self._wait(process, "script")
            hosts.cut(1)
            told, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, told
        assert "hosts that answer: 10.77.0.1:1\n" in told, told
        self._compare("script")
        return "demos/hosts/run.sh went on without a host that was cut off, with the same bits"

    def not_shared(self) -> str:
        """Give one host a run directory of its own: no run, and no resume with a copy of the directory."""
        out = self.folder / "local"
        out.mkdir()
        with self._hosts(2, "1gbit") as hosts:
            hosts.on(1, f"mount -t tmpfs none {out}")
            self._refuse(hosts, ["run", self.file.name, "--out", "local/run"], "is not shared", "host2")
            assert not any(out.iterdir()), "something was left behind"
            alone(self.file, "local/run", "run.displays=20")
            hosts.on(1, f"umount {out} && cp -r {out} /dev/shm/copy && mount -t tmpfs none {out}")
            hosts.on(1, f"cp -r /dev/shm/copy/run {out}")
            before = _listing(out)
            self._refuse(hosts, ["resume", "local/run"], "is not shared", "host2")
            assert _listing(out) == before
        shutil.rmtree(out)
        return "run directory not shared: refused by run and resume, with the name of the host"

    def other_version(self) -> str:
        """Give one host another version of petabatch."""
        source = Path(petabatch.version.__file__)
        other = self.folder / "version.py"
        other.write_text(source.read_text().replace(petabatch.__version__, "0.0.1"))
        return self._different(source, other, "petabatch is not the same on all ranks")

    def other_params(self) -> str:
        """Give one host another params file of the same name."""
        other = self.folder / "other.toml"
        other.write_text(self.file.read_text().replace("threshold = 0.3", "threshold = 0.30001", 1))
        return self._different(self.file, other, "params is not the same on all ranks")

    def other_images(self) -> str:
        """Give one host other images."""
        images = np.load(self.folder / "images.npy")
        np.save(self.folder / "other.npy", images[::-1])
        return self._different(
            self.folder / "images.npy", self.folder / "other.npy", "files that the run reads are not the same"
        )

    def _different(self, here: Path, there: Path, problem: str) -> str:
        with self._hosts(2, "1gbit") as hosts:
            hosts.on(1, f"mount --bind {there} {here}")
            told = self._refuse(
                hosts, ["run", self.file.name, "--out", "other"], problem, "rank 1 (on host2)"
            )
        assert not (self.folder / "other").exists()
        return f"{problem}: refused, found {told.partition('found:')[2].splitlines()[0].strip()}"

    @contextmanager
    def _hosts(self, number: int, rate: str) -> Iterator[Hosts]:
        with Hosts(number, self.folder, rate, self._mpirun) as hosts:
            yield hosts

    def _start(self, hosts: Hosts, which: Sequence[int], *arguments: str) -> subprocess.Popen[str]:
        command = [BIN / "petabatch", *arguments, "-q", "--threads", "1"]
        each = max(1, self._parts // len(which))
        return hosts.mpirun(which, command, self.folder, each, self._environment)

    def _finish(self, hosts: Hosts, which: Sequence[int], *arguments: str) -> None:
        process = self._start(hosts, which, *arguments)
        told, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, told

    def _end(self, process: subprocess.Popen[str], hosts: Hosts) -> tuple[str, str]:
        """Return what a run without one of its hosts has printed, and what is strange about its launcher."""
        strange = ""
        try:
            told, _ = process.communicate(timeout=ENDING)
        except subprocess.TimeoutExpired:
            strange = ", mpirun had to be killed"
            for host in range(len(hosts.names)):
                hosts.kill(host)  # also its daemons, which hold our end of the pipe
            told, _ = process.communicate()
        if process.returncode == 0:
            strange = ", exit code 0"
        assert not strange or is_open_mpi(self._mpirun), f"{strange}\n{told}"
        return told, strange

    def _refuse(self, hosts: Hosts, arguments: Sequence[str], *found: str) -> str:
        """Have a command refused on both hosts with a message that has these texts in it."""
        process = self._start(hosts, range(2), *arguments)
        told, _ = process.communicate(timeout=PATIENCE)
        assert process.returncode != 0, told
        for text in found:
            assert text in told, told
        return told

    def _wait(self, process: subprocess.Popen[str], out: str) -> None:
        """Wait for the first checkpoint of a run, or for a later one in its place."""
        wait_for_checkpoint(self.folder / out, 1000, process)
        time.sleep(0.3)  # a rank that is silent while it writes counts as one with a slow file system

    def _compare(self, out: str) -> None:
        found = _results(self.folder / out)
        assert found.keys() == self._expected.keys()
        different = [name for name, data in self._expected.items() if found[name] != data]
        assert not different, different


def four_modes(displays: int, modes: Sequence[str] = MODES) -> str:
    """Return the small network with a loop, and so a dictionary, of each weight mode on the same images."""
    tables = tomllib.loads(SMALL)
    layers, connections = tables["layers"], tables["connections"]
    tables["run"] |= {"batch": SLICES, "displays": displays}
    tables["layers"], tables["connections"], tables["probes"] = {}, {}, {}
    tables["output"] = {"flush": "100 displays", "layers": {}, "connections": {}}
    tables["checkpoint"] = {"every": "100 displays"}
    for mode in modes:

        def own(name: str, mode: str = mode) -> str:
            return name if name == "image" else f"{name}_{mode}"

        for name, layer in layers.items():
            tables["layers"][own(name)] = layer
        for name, connection in connections.items():
            new = tables["connections"][own(name)] = dict(connection)
            new |= {key: own(new[key]) for key in ("pre", "post", "of") if key in new}
            if "learn" in new:
                new |= {"mode": mode, "learn": {**new["learn"], "error": own("error")}}
        tables["output"]["layers"][own("V1")] = {"variables": ["A", "V"]}
        tables["output"]["connections"][own("dictionary")] = {}
    return toml(tables)


def _results(path: Path) -> dict[str, bytes]:
    last = max((path / "checkpoints").glob("step_?????????.h5"))
    state = {f"{last.name}/{name}": data for name, data in contents(last).items()}
    return {**contents(RunDirectory.open(path).run_file), **state}


def _listing(folder: Path) -> list[tuple[str, int, int]]:
    files = (one for one in folder.rglob("*") if one.is_file())
    return sorted((str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in files)


def situations(campaign: Campaign, mpirun: Path) -> Iterator[Callable[[], str]]:
    """Yield everything that the campaign does."""
    for number, rate in ((1, "1gbit"), (2, "1gbit"), (2, "100mbit"), (4, "1gbit")):
        yield lambda number=number, rate=rate: campaign.same_bits(number, rate)
    yield lambda: campaign.lost(4, 3, "processes killed", [0, 1])
    yield lambda: campaign.lost(2, 1, "link cut", [0])
    yield lambda: campaign.lost(2, 0, "link cut", [1])
    if not is_open_mpi(mpirun):  # whose mpirun has other options
        yield campaign.script
    yield campaign.not_shared
    yield campaign.other_version
    yield campaign.other_params
    yield campaign.other_images


def short(campaign: Campaign) -> Iterator[Callable[[], str]]:
    """Yield what does not depend on how fast the machine is."""
    yield lambda: campaign.same_bits(2, "1gbit")
    yield lambda: campaign.lost(2, 1, "processes killed", [0])
    yield campaign.not_shared
    yield campaign.other_images


def split(campaign: Campaign) -> Iterator[Callable[[], str]]:
    """Yield what two hosts that share each slice go through."""
    yield lambda: campaign.same_bits(2, "1gbit")
    yield lambda: campaign.lost(2, 1, "processes killed", [0])
    yield lambda: campaign.lost(2, 0, "link cut", [1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mpirun", type=Path, default=MPIRUN, help="MPICH's or Open MPI's")
    parser.add_argument("--short", action="store_true", help="two hosts only")
    parser.add_argument("--split", choices=("features", "rows"), help="what two ranks share a slice by")
    options = parser.parse_args()
    mpirun = options.mpirun.resolve()
    with tempfile.TemporaryDirectory() as folder:
        try:
            with Hosts(2, Path(folder), "1gbit", mpirun):
                pass
        except NoHosts as reason:
            print(f"skipped: {reason}")
            return
        campaign = Campaign(Path(folder), mpirun, split=options.split)
        several = situations(campaign, mpirun)
        if options.split is not None or options.short:
            several = short(campaign) if options.split is None else split(campaign)
        for situation in several:
            print(situation(), flush=True)


if __name__ == "__main__":
    main()
