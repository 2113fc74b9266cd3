"""A sweep of 76 Wilson-Cowan nodes with dense coupling and delays, beside NumPy and tvb-library.

    python benchmarks/whole_brain.py [--points 100000] [--ranks 2] [--wave 500] [--out DIR] [--alone 100]
        [--rounds 5] [--tvb PYTHON]

Each point has a coupling strength and a drive of its own, and makes 1,000 steps; kept are the moments of
the activity at two times. Measured are the processor time and the memory of `petabatch run` on ranks; with
`--out` that directory is kept, and resumed if it exists. Points drawn at random are then made alone and
compared to the bit. The same points are made by `petabatch.sweep` and by two programs in NumPy that advance a
batch, in turns, on one core, and by tvb-library with PYTHON, an interpreter that has it (`--points 0` makes
these alone). All solve the same equations, with the same edges and delays: last states are compared. Times
are those of the processor.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import petabatch
from petabatch import results, simulation

NODES, STEPS, DT = 76, 1000, 0.5
SPEED, SCALE = 4.0, 40.0
"""Of conduction, in mm / ms, and over which weights fall off, in mm."""
STRENGTH, DRIVE = (0.0, 3.0), (0.0, 2.0)
PARAMS = f"""
[run]
batch = 1
display = {STEPS}
displays = 1
dt = {DT}

[layers.nodes]
type = "neurons"
shape = [1, 1, {NODES}]
equations = '''
dE/dt = (-E + (1 - E) * Se) / 10
dI/dt = (-I + (1 - I) * Si) / 10
Se = 1 / (1 + exp(-1.2 * (12 * E - 4 * I + drive + coupling - 2.8))) - 1 / (1 + exp(1.2 * 2.8))
Si = 1 / (1 + exp(4 - (13 * E - 11 * I))) - 1 / (1 + exp(4))
'''
parameters = {{ drive = 0.5 }}
currents = ["coupling"]
method = "euler"

[connections.tracts]
type = "sparse"
pre = "nodes"
post = "nodes"
target = "coupling"
path = "edges.npz"

[probes.moments]
type = "statistics"
layer = "nodes"
every = "{STEPS // 2} steps"
"""
KEYS = "connections.tracts.strength", "layers.nodes.parameters.drive"


def edges(seed: int = 1) -> dict[str, np.ndarray]:
    """Return log-normal weights that fall off with distance between all nodes, and delays in ms."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(-1, 1, (NODES, 3)) * [35, 70, 30]
    length = np.linalg.norm(places[:, None] - places, axis=2)
    weights = rng.lognormal(0, 1, (NODES, NODES)) * np.exp(-length / SCALE)
    np.fill_diagonal(weights, 0)
    row, col = np.nonzero(weights)
    data = (weights / weights.sum(0).mean())[row, col]
    return {"row": row, "col": col, "data": data, "delay": np.rint(length / SPEED / DT)[row, col] * DT}


def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return strengths and drives."""
    rng = np.random.default_rng(2)
    low, high = zip(STRENGTH, DRIVE, strict=True)
    strength, drive = rng.uniform(low, high, (count, 2)).T
    return strength, drive


def advance(
    coupled: Callable[[np.ndarray, int], np.ndarray], points: tuple[np.ndarray, np.ndarray], kept: int
) -> np.ndarray:
    """Return the last E `[nodes, points]`; `coupled` sums up what arrives from the last `kept` steps."""
    strength, drive = (one.astype(np.float32) for one in points)
    E = np.zeros((NODES, len(strength)), np.float32)
    I, before, f = E.copy(), np.zeros((kept, *E.shape), np.float32), np.float32  # noqa: E741
    least_e, least_i = f(1 / (1 + np.exp(1.2 * 2.8))), f(1 / (1 + np.exp(4.0)))
    for step in range(STEPS):
        before[step % kept] = E
        arrived = strength * coupled(before, step)
        Se = 1 / (1 + np.exp(f(-1.2) * (12 * E - 4 * I + drive + arrived - f(2.8)))) - least_e
        Si = 1 / (1 + np.exp(4 - (13 * E - 11 * I))) - least_i
        E, I = E + f(DT / 10) * (-E + (1 - E) * Se), I + f(DT / 10) * (-I + (1 - I) * Si)  # noqa: E741
    return E


def numpy_programs(net: dict[str, np.ndarray]) -> dict[str, tuple[Callable[..., np.ndarray], int]]:
    """Return two ways to sum up what arrives, and how many steps they keep: by edges, and by delays."""
    weights = np.zeros((NODES, NODES), np.float32)
    late = np.zeros((NODES, NODES), int)
    weights[net["col"], net["row"]], late[net["col"], net["row"]] = net["data"], np.rint(net["delay"] / DT)
    kept, nodes = int(late.max()) + 1, np.arange(NODES)
    of_delay = [(int(d), np.where(late == d, weights, 0)) for d in np.unique(late[weights > 0])]

    def by_edges(before: np.ndarray, step: int) -> np.ndarray:
        seen = before[(step - late) % kept, nodes]
        return np.matmul(weights[:, None, :], seen)[:, 0]  # type: ignore[no-any-return]

    def by_delays(before: np.ndarray, step: int) -> np.ndarray:
        return sum(matrix @ before[(step - delay) % kept] for delay, matrix in of_delay)  # type: ignore[return-value]

    return {"edges": (by_edges, kept), "delays": (by_delays, kept)}


def time_numpy(net: dict[str, np.ndarray]) -> Iterator[tuple[str, int, float, np.ndarray]]:
    """Yield program, batch, milliseconds a point, and the last E of the first points."""
    for name, (coupled, kept) in numpy_programs(net).items():
        for batch in (32, 64, 128, 256) if name == "edges" else (256,):
            begin = time.process_time()
            with threadpool_limits(1):
                found = advance(coupled, draw(batch), kept)
            yield name, batch, (time.process_time() - begin) / batch * 1e3, found


class Memory(threading.Thread):
    """The largest sum of the resident memory of the processes below this one, in MiB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self._end = 0.0, threading.Event()

    def run(self) -> None:
        """Look every half a second."""
        while not self._end.wait(0.5):
            self.peak = max(self.peak, sum(map(self._resident, self._below(os.getpid()))))

    def stop(self) -> float:
        """Return it."""
        self._end.set()
        return self.peak

    def _below(self, process: int) -> Iterator[int]:
        try:
            children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
        except OSError:
            return
        for child in map(int, children):
            yield child
            yield from self._below(child)

    @staticmethod
    def _resident(process: int) -> float:
        try:
            status = Path(f"/proc/{process}/status").read_text()
        except OSError:
            return 0.0
        return sum(float(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def run_points(folder: Path, out: Path, points: int, wave: int, ranks: int) -> tuple[float, float, float]:
    """Run or resume the sweep; return seconds on the clock, of the processor, and MiB of all ranks."""
    launcher = [str(Path(sys.executable).with_name("mpirun")), "-n", str(ranks)]
    command = [*(launcher if ranks > 1 else []), sys.executable, "-m", "petabatch"]
    if out.exists():
        command += ["resume", str(out)]
    else:
        command += ["run", str(folder / "net.toml"), "--out", str(out)]
        lines = [f"sweep.draws={points}", f"sweep.wave={wave}", "sweep.draw='random'"]
        for key, (low, high) in zip(KEYS, (STRENGTH, DRIVE), strict=True):
            lines.append(f"sweep.{key}={{low={low}, high={high}}}")
        command += [part for line in lines for part in ("-s", line)]
    memory = Memory()
    memory.start()
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*command, "--threads", "1", "-q"], check=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - begin
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, memory.stop()


def compare_alone(folder: Path, out: Path, count: int) -> int:
    """Make points alone; return how many were compared. Raises AssertionError where a bit differs."""
    with results.open(out) as run:
        names = list(run)
        slices = run.batch
        chosen = np.random.default_rng(3).choice(slices, min(count, slices), replace=False)
        values = {key: run.coordinates[key.rpartition(".")[2]][chosen] for key in KEYS}
        recorded = {name: run[name][...][:, chosen] for name in names}
    for place in range(len(chosen)):
        loaded = simulation.read(
            folder / "net.toml", [f"{key}={float(found[place])!r}" for key, found in values.items()]
        )
        alone = petabatch.in_memory.run(loaded, threads=1)
        for name in names:
            assert alone.recorded[name][:, 0].tobytes() == recorded[name][:, place].tobytes(), (name, place)
    return len(chosen)


def last_states(folder: Path, count: int) -> tuple[float, np.ndarray]:
    """Return milliseconds a point in this process, on one core, and the last E `[nodes, points]`."""
    loaded = simulation.read(folder / "net.toml", ['output.layers.nodes={variables=["E"]}'])
    strength, drive = draw(count)

    def made(points: slice) -> list[np.ndarray]:
        drawn = dict(zip(KEYS, (strength[points], drive[points]), strict=True))
        found = petabatch.sweep(loaded, drawn, lambda one: one["layers/nodes/E"][-1, 0].ravel(), threads=1)
        return [point.observed for point in found]

    made(slice(2))  # compiles
    begin = time.process_time()
    states = np.stack(made(slice(None)), axis=1)
    return (time.process_time() - begin) / count * 1e3, states


def compare_numpy(folder: Path, rounds: int) -> np.ndarray:
    """Make points in turns and print how long they take; return the last E `[nodes, points]`."""
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        took, ours = last_states(folder, 512)
        times.setdefault("petabatch.sweep, 512 points", []).append(took)
        for name, batch, took, found in time_numpy(edges()):
            apart = float(np.abs(found - ours[:, :batch]).max())
            assert apart < 1e-4, (name, batch, apart)
            times.setdefault(f"NumPy, by {name}, batch {batch}", []).append(took)
    mine, *others = (np.array(one) for one in times.values())
    for name, one in times.items():
        low, middle, high = np.percentile(one, [25, 50, 75])
        print(f"{name}: {middle:.2f} ms a point ({low:.2f} to {high:.2f})")
    low, middle, high = np.percentile(np.min(others, axis=0) / mine, [25, 50, 75])
    print(f"fastest NumPy of a round / petabatch.sweep: {middle:.2f} ({low:.2f} to {high:.2f})", flush=True)
    return ours


def time_tvb(folder: Path, python: str, count: int) -> tuple[float, np.ndarray]:
    """Return milliseconds a point by tvb-library, but for the first, and the last E `[nodes, points]`."""
    strength, drive = draw(count)
    about = {"nodes": NODES, "steps": STEPS, "dt": DT}
    np.savez(folder / "points.npz", strength=strength, drive=drive, **about)
    script = Path(__file__).with_name("whole_brain_tvb.py")
    files = [str(folder / name) for name in ("edges.npz", "points.npz", "tvb.npz")]
    subprocess.run([python, str(script), *files], check=True)
    with np.load(folder / "tvb.npz") as found:
        return float(found["seconds"][1:].mean() * 1e3), found["ends"].T


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--wave", type=int, default=500)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--alone", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tvb", help="an interpreter that has tvb-library")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if given.out is None else Path(f"{given.out}.inputs")
        folder.mkdir(exist_ok=True)
        np.savez(folder / "edges.npz", **edges())
        (folder / "net.toml").write_text(PARAMS)
        if given.points:
            out = given.out or folder / "out"
            wall, spent, memory = run_points(folder, out, given.points, given.wave, given.ranks)
            print(
                f"{given.points:,} points on {given.ranks} ranks: {spent:.0f} s of processor time, "
                f"{spent / given.points * 1e3:.2f} ms a point; {wall:.0f} s on the clock; "
                f"{memory:.0f} MiB, all ranks together",
                flush=True,
            )
            print(f"{compare_alone(folder, out, given.alone)} points made alone: all bits alike", flush=True)
        ours = compare_numpy(folder, given.rounds)
        if given.tvb:
            took, found = time_tvb(folder, given.tvb, 20)
            apart = float(np.abs(found - ours[:, :20]).max())
            print(f"tvb-library: {took:.1f} ms a point; largest difference {apart:.1e}")


if __name__ == "__main__":
    main()
