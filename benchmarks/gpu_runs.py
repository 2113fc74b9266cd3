"""Whole runs on a GPU compared with the CPU: golden cases, the learning demo, changing the device."""

from __future__ import annotations

import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from gpu_speed import relative

from petabatch import (
    builtins,  # noqa: F401
    session,
    simulation,
)
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.errors import StoppedEarly
from petabatch.results import open as open_results
from petabatch.spec.network import Network

HERE = Path(__file__).parent
DEMO = HERE.parent / "params" / "natural_images.toml"
WORKERS = 6
BACK = ("run.displays=6", "run.display=50", "run.batch=4")
"""The run that moves from device to device."""
KINDS = ("float32", "float32 on the CPU", "TF32")
LAST = 10
"""Displays at the end of the demo over which energies are averaged."""


def state(network: Network, **run: Any) -> dict[str, np.ndarray]:
    """Return the arrays of the last checkpoint of a run."""
    wanted = network.model_copy(update={"run": network.run.model_copy(update=run)})
    engine = Assembly.of(wanted, threads=2).engine()
    engine.start()
    for step in drive(engine):
        if step % engine.plan.flush == 0:
            engine.flushed()
    engine.collect()
    return engine.state.saved()


def furthest(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> float:
    """Return the largest relative distance over all arrays."""
    return max(relative(found[key], expected[key]) for key in expected)


def golden_case(name: str) -> dict[str, Any]:
    """Return the distance of one golden case, in float32 and in TF32, from float64 on the CPU."""
    sys.path.append(str(HERE.parent / "tests"))
    from support import golden

    network = golden.Case(name).network()
    exact = state(network, precision="float64")
    one, two = (state(network, device="gpu", kernel="auto") for _ in range(2))
    return {
        "steps": network.run.length,
        "float32": furthest(one, exact),
        "float32 on the CPU": furthest(state(network), exact),
        "TF32": max(
            furthest(state(network, device="gpu", kernel=kernel, tf32=True), exact)
            for kernel in ("auto", "array")
        ),
        "same bits twice": all(one[key].tobytes() == two[key].tobytes() for key in one),
    }


def golden_cases() -> dict[str, Any]:
    """Return it for all golden cases, each in a process of its own, since kernels compile."""
    sys.path.append(str(HERE.parent / "tests"))
    from support import golden

    with ProcessPoolExecutor(WORKERS, multiprocessing.get_context("spawn")) as pool:
        cases = {name: pool.submit(golden_case, name) for name in golden.names()}
        found = {name: case.result() for name, case in cases.items()}
    worst = {kind: max(case[kind] for case in found.values()) for kind in KINDS}
    alike = all(case["same bits twice"] for case in found.values())
    return {
        "worst": worst,
        "at most": {"float32": 1e-4, "TF32": 2e-3},
        "same bits twice": alike,
        "cases": found,
    }


def demo(displays: int) -> dict[str, Any]:
    """Return the final energy and the speed of the learning demo on the GPU and on the CPU."""
    found: dict[str, Any] = {"displays": displays, "at most": 0.01}
    with tempfile.TemporaryDirectory() as folder:
        for device in ("gpu", "cpu"):
            loaded = simulation.read(DEMO, [f"run.displays={displays}", f"run.device={device}"])
            begin = time.perf_counter()
            simulation.run(loaded, Path(folder) / device, quiet=True)
            took = time.perf_counter() - begin
            made = loaded.network.run.batch * loaded.network.run.length
            found[device] = {
                "energy": energy(Path(folder) / device),
                "slice steps/s, start and files included": made / took,
            }
    found["apart"] = abs(found["gpu"]["energy"] / found["cpu"]["energy"] - 1)
    return found


def energy(run: Path) -> float:
    """Return the mean energy of the last displays of a run."""
    with open_results(run) as results:
        return float(results["probes/energy/total"][...][-LAST:].mean())


def ranks(numbers: tuple[int, ...] = (1, 2, 4)) -> dict[str, Any]:
    """Return whether ranks that share the GPU learn the bits of one, and the seconds of each run."""
    found: dict[str, Any] = {}
    launcher = shutil.which("mpirun")
    if launcher is None:
        raise FileNotFoundError("there is no mpirun here")
    weights = []
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            out, begin = Path(folder) / str(number), time.perf_counter()
            keys = [word for key in (*BACK, "run.device=gpu") for word in ("-s", key)]
            command = [launcher, "-n", str(number), sys.executable, "-m", "petabatch", "run", str(DEMO)]
            subprocess.run([*command, "--out", str(out), *keys], check=True, stdout=subprocess.DEVNULL)
            found[f"{number} ranks, seconds"] = time.perf_counter() - begin
            with open_results(out) as results:
                weights.append(np.asarray(results["connections/dictionary/weights"][-1]).tobytes())
    return {**found, "same bits": all(one == weights[0] for one in weights)}


def there_and_back() -> dict[str, Any]:
    """Return the distance of a run moved from CPU to GPU to CPU from one on the CPU alone."""
    loaded = simulation.read(DEMO, BACK)
    third = loaded.network.run.length // 3
    with tempfile.TemporaryDirectory() as folder:
        alone, out = Path(folder) / "alone", Path(folder) / "out"
        simulation.run(loaded, alone, quiet=True)
        for number, device in enumerate(("cpu", "gpu", "cpu"), 1):

            def stop(self: session.RunSession, last: int = number * third) -> bool:
                return self.engine.step >= last

            with patch.object(session.RunSession, "_out_of_time", stop):
                try:
                    if number == 1:
                        simulation.run(loaded, out, quiet=True)
                    else:
                        simulation.resume(out, quiet=True, device=device)
                except StoppedEarly:
                    pass
        with open_results(out) as found, open_results(alone) as expected:
            names = [name for name in expected.names() if not name.startswith("layers/")]
            return {
                "steps": found.steps_reached,
                "of": loaded.network.run.length,
                "energies and weights apart": max(
                    relative(found[name][...], expected[name][...]) for name in names
                ),
            }
