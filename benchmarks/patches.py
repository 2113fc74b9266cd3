"""Codes of patches, and dictionaries learned from them, compared with SPAMS and scikit-learn; one thread.

python benchmarks/patches.py [--spams PYTHON] [--rounds 3] [--epochs 1 3 10]    # about three minutes

PYTHON is an interpreter that has SPAMS (`pip install spams-bin numpy`), if any. 20,000 whitened patches of
8 x 8 pixels of photographs; 64, 256 and 1,024 atoms, which are other patches with noise; penalties at which
3, 13 and 30 atoms are active on average. Seconds of processor time, the least of rounds in turns, and mean
objectives, all computed here in float64: those of dictionaries are of 4,000 patches that were not learned
from. SPAMS and scikit-learn (coordinate descent) code in float64, the former to a sparse matrix; ours in
float32 to arrays. Kernels are warm. Dictionaries begin with the same patches; a second problem has 96 atoms,
24,000 patches that are only centred and normalised, a penalty of 0.15 and batches of 64. The last table has
seconds on the clock and of the processor for codes with 256 atoms, by threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import introduce, keep, options, table
from skimage import data, util
from sklearn.decomposition import MiniBatchDictionaryLearning, sparse_encode
from threadpoolctl import threadpool_limits

import petabatch
from petabatch.sklearn import DictionaryLearner, SparseCoder

ATOMS, ACTIVE, COUNT, HELD = (64, 256, 1024), (3, 13, 30), 20_000, 4_000
PENALTIES = {64: (1.98, 0.653, 0.14), 256: (2.86, 1.16, 0.332), 1024: (3.46, 1.48, 0.412)}
SPAMS = """
import json, os, sys, time
import numpy as np, spams
z, kind, atoms, penalty = np.load(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
items = np.asfortranarray(z["items"].T.astype("f8"))
dictionary = np.asfortranarray(z[atoms].T.astype("f8"))
out, silent = os.dup(1), os.open(os.devnull, os.O_WRONLY)
os.dup2(silent, 1); os.dup2(silent, 2)
begin = time.process_time()
if kind == "code":
    found = spams.lasso(items, D=dictionary, lambda1=penalty, mode=2, numThreads=1)
else:
    batch, epochs = map(int, sys.argv[5:7])
    steps = -(-items.shape[1] * epochs // batch)
    given = dict(lambda1=penalty, mode=2, batchsize=batch, numThreads=1)
    found = spams.trainDL(items, D=dictionary, iter=steps, **given)
seconds = time.process_time() - begin
np.save(sys.argv[-1], found.toarray().T if kind == "code" else found.T)
os.write(out, json.dumps(seconds).encode())
"""


def cut_out(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return patches of photographs, centred, float64 `[count, 64]`."""
    names = ("camera", "moon", "coins", "brick", "grass", "gravel")
    images = [util.img_as_float(getattr(data, name)()) for name in names]
    patches = np.empty((count, 64))
    for row in patches:
        image = images[rng.integers(len(images))]
        y, x = rng.integers(image.shape[0] - 8), rng.integers(image.shape[1] - 8)
        row[:] = image[y : y + 8, x : x + 8].ravel()
    return patches - patches.mean(axis=1, keepdims=True)


def problem() -> dict[str, np.ndarray]:
    """Return whitened patches, others that are held out, and dictionaries."""
    rng = np.random.default_rng(0)
    patches = cut_out(rng, COUNT + max(ATOMS) + HELD)
    values, vectors = np.linalg.eigh(patches.T @ patches / len(patches))
    patches = patches @ ((vectors / np.sqrt(values + 1e-3)) @ vectors.T)
    patches /= patches.std()
    found = {"items": patches[:COUNT].astype(np.float32), "held": patches[-HELD:].astype(np.float32)}
    for atoms in ATOMS:
        rows = patches[COUNT : COUNT + atoms] + 0.3 * rng.standard_normal((atoms, 64))
        found[str(atoms)] = unit(rows)
    return found


def second_problem() -> dict[str, np.ndarray]:
    """Return normalised patches, others that are held out, and a random dictionary."""
    rng = np.random.default_rng(1)
    patches = unit(cut_out(rng, 24_000 + HELD) + 1e-6 * rng.standard_normal((24_000 + HELD, 64)))
    return {"items": patches[:-HELD], "held": patches[-HELD:], "96": unit(rng.standard_normal((96, 64)))}


def unit(rows: np.ndarray) -> np.ndarray:
    """Return rows of norm 1, float32."""
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def objective(items: np.ndarray, code: np.ndarray, dictionary: np.ndarray, penalty: float) -> float:
    """Return the mean objective of codes."""
    code = code.astype(float)
    squares = np.square(items - code @ dictionary).sum(axis=1)
    return float((0.5 * squares + penalty * np.abs(code).sum(axis=1)).mean())


def timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the processor time of a function, and its result."""
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def spams(python: str, file: Path, *words: object) -> tuple[float, np.ndarray]:
    """Return the processor time of SPAMS, and its codes or atoms."""
    out = file.with_name("found.npy")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [python, "-c", SPAMS, str(file), *map(str, words), str(out)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout), np.load(out)


Methods = dict[str, Callable[[], tuple[float, np.ndarray]]]


def compared(methods: Methods, rounds: int, judge: Callable[[np.ndarray], float]) -> list[list[str]]:
    """Return the name of each method, its least time in turns and its objective."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    values = {}
    for _ in range(rounds):
        for name, method in methods.items():
            seconds, result = method()
            times[name].append(seconds)
            values[name] = judge(result)
    return [[name, f"{min(times[name]):.3f}", f"{values[name]:.4f}"] for name in methods]


def coding(
    given: Any, file: Path, made: dict[str, np.ndarray], atoms: int, penalty: float
) -> list[list[str]]:
    """Return a row for each method."""
    items, dictionary = made["items"], made[str(atoms)]
    images, patches = items.reshape(-1, 8, 8, 1), dictionary.reshape(-1, 8, 8, 1)
    wide = items.astype(float), dictionary.astype(float)

    def ours() -> np.ndarray:
        codes = petabatch.encode(images, patches, penalty, stride=8, signed=True, threads=1, quiet=True)
        return np.asarray(codes).reshape(COUNT, -1)

    def theirs() -> np.ndarray:
        return sparse_encode(*wide, algorithm="lasso_cd", alpha=penalty)

    ours()
    methods: Methods = {"petabatch": lambda: timed(ours), "scikit-learn": lambda: timed(theirs)}
    if given.spams:
        methods["SPAMS"] = lambda: spams(given.spams, file, "code", atoms, penalty)
    return compared(methods, given.rounds, lambda code: objective(items, code, dictionary, penalty))


def learning(
    given: Any, file: Path, made: dict[str, np.ndarray], atoms: int, penalty: float, batch: int, epochs: int
) -> list[list[str]]:
    """Return a row for each method."""
    items, begin = made["items"], made[str(atoms)]
    common: dict[str, Any] = {"batch_size": batch, "random_state": 0}

    def ours() -> np.ndarray:
        learner = DictionaryLearner(atoms, penalty, epochs=epochs, dictionary=begin, **common)
        return learner.fit(items).components_

    def theirs() -> np.ndarray:
        more = {"dict_init": begin.astype(float), "tol": 0, "max_no_improvement": None}
        learner = MiniBatchDictionaryLearning(
            atoms, alpha=penalty, max_iter=epochs, fit_algorithm="cd", **more, **common
        )
        return learner.fit(items.astype(float)).components_

    methods: Methods = {"petabatch": lambda: timed(ours), "scikit-learn": lambda: timed(theirs)}
    if given.spams:
        methods["SPAMS"] = lambda: spams(given.spams, file, "learn", atoms, penalty, batch, epochs)
    held = made["held"]
    return compared(
        methods, min(given.rounds, 2), lambda found: -SparseCoder(found, penalty).fit(held).score(held)
    )


def by_threads(made: dict[str, np.ndarray], rounds: int) -> list[list[str]]:
    """Return threads, seconds on the clock and of the processor, the least of rounds in turns."""
    images, patches = made["items"].reshape(-1, 8, 8, 1), made["256"].reshape(-1, 8, 8, 1)
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(rounds + 1):  # the first warms up
        for threads, times in found.items():
            wall, processor = time.perf_counter(), time.process_time()
            petabatch.encode(
                images, patches, PENALTIES[256][1], stride=8, signed=True, threads=threads, quiet=True
            )
            times.append((time.perf_counter() - wall, time.process_time() - processor))
    return [
        [str(threads), *(f"{min(one):.3f}" for one in zip(*times[1:], strict=True))]
        for threads, times in found.items()
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure codes, then dictionaries."""
    parser = options(__doc__, rounds=3, threads=(1,))
    parser.add_argument("--spams", help="an interpreter that has SPAMS")
    parser.add_argument("--epochs", type=int, nargs="*", default=[1, 3, 10])
    given = parser.parse_args(arguments)
    about = introduce()
    warnings.simplefilter("ignore")  # scikit-learn's, of items that did not converge
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        made, file = problem(), Path(folder) / "problem.npz"
        np.savez(file, **made)
        codes = [
            [atoms, active, *row]
            for atoms in ATOMS
            for active, penalty in zip(ACTIVE, PENALTIES[atoms], strict=True)
            for row in coding(given, file, made, atoms, penalty)
        ]
        table(("atoms", "active", "", "seconds", "objective"), codes)
        learned = [
            ["256 whitened", epochs, *row]
            for epochs in given.epochs
            for row in learning(given, file, made, 256, 1.2, 256, epochs)
        ]
        second = second_problem()
        np.savez(file, **second)
        learned += [
            ["96", epochs, *row]
            for epochs in given.epochs
            for row in learning(given, file, second, 96, 0.15, 64, epochs)
        ]
        table(("atoms", "epochs", "", "seconds", "held-out objective"), learned)
    threads = by_threads(made, given.rounds)
    table(("threads", "seconds on the clock", "of the processor"), threads)
    keep({"machine": about, "codes": codes, "learning": learned, "threads": threads}, "patches", given.json)


if __name__ == "__main__":
    main()
