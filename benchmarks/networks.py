"""Networks beyond the sparse-coding loop: time of a step, against the loop and the dense products.

    python benchmarks/networks.py [--rounds 9] [--json FILE]

Variants of the built-in network and `params/two_layer.toml` run on one thread by the engine, in turns. Shown
are medians and quartiles over the rounds of the time of a step of a slice, of its ratio to the loop in dense
steps, which is one of the networks, and of its ratio to the dense products of its own connections. Weights of
each unit's own (`non_shared`) have no such products; there the array path is measured as well.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import introduce, keep, table

from petabatch import builtins  # noqa: F401  (makes every built-in type known)
from petabatch.bench.example import SHAPE, network
from petabatch.bench.floor import Floor
from petabatch.bench.trial import Trial, interleaved, run
from petabatch.connections import Identity, Pool, Transpose
from petabatch.layers import Constant, Linear, Mask, Rectified
from petabatch.spec.load import load
from petabatch.spec.network import Network
from petabatch.spec.schedule import Every

TWO_LAYERS = Path(__file__).parents[1] / "params" / "two_layer.toml"
STEPS, SLICES = 400, 2


def variant(layers: dict[str, Any], connections: dict[str, Any], **settings: object) -> Network:
    """Return the built-in network with more layers and connections, or with others of the same names."""
    parts = {
        "layers": {**network.layers, **layers},
        "connections": {**network.connections, **connections},
        "run": network.run.model_copy(update={"batch": SLICES, "display": STEPS, **settings}),
    }
    return network.model_copy(update=parts)


def variants() -> dict[str, Network]:
    """Return the built-in network and what differs from it in one respect."""
    V1, dictionary, drive = (
        network.layers["V1"],
        network.connections["dictionary"],
        network.connections["drive"],
    )
    to_error = {"pre": "recon", "post": "error0", "channel": "inh", "feedback": True}
    masked = (
        {"ones": Constant(shape=SHAPE, value=1.0), "error0": Linear(shape=SHAPE), "error": Mask(shape=SHAPE)},
        {
            "image_to_error": Identity(pre="image", post="error0"),
            "recon_to_error": Identity(**to_error),
            "error0_to_error": Identity(pre="error0", post="error"),
            "mask": Identity(pre="ones", post="error", channel="mask"),
        },
    )
    second_eye = (
        {"image2": network.layers["image"], "error2": Linear(shape=SHAPE), "recon2": Linear(shape=SHAPE)},
        {
            "image2_to_error2": Identity(pre="image2", post="error2"),
            "recon2_to_error2": Identity(**{**to_error, "pre": "recon2", "post": "error2"}),
            "dictionary2": dictionary.model_copy(update={"post": "recon2"}),
            "drive2": Transpose(pre="error2", post="V1", of="dictionary2"),
        },
    )
    readout = {"readout": Rectified(shape=(8, 8, 128))}, {"pool": Pool(pre="V1", post="readout")}
    reader = {"reader": Linear(shape=SHAPE)}, {"read": Identity(pre="recon", post="reader")}

    def other(part: Any, **update: object) -> Any:
        return part.model_copy(update=update)

    shared, non_shared = ({"dictionary": other(dictionary, mode=mode)} for mode in ("shared", "non_shared"))
    return {
        "loop, dense": variant({}, {}, kernel="dense"),
        "loop, lazy": variant({}, {}, kernel="lazy"),
        "with a reader": variant(*reader),
        "with a reader, dense": variant(*reader, kernel="dense"),
        "with a pooled readout": variant(*readout),
        "V1 reset at each image": variant({"V1": other(V1, reset=Every(1, "displays"))}, {}),
        "masked error": variant(*masked),
        "drive delayed by 3": variant({}, {"drive": other(drive, delay_steps=3)}),
        "V1 with mirror border": variant({"V1": other(V1, border="mirror")}, {}),
        "two eyes": variant(*second_eye),
        "shared, dense": variant({}, shared, kernel="dense"),
        "shared, lazy": variant({}, shared, kernel="lazy"),
        "non_shared": variant({}, non_shared),
        "non_shared, dense": variant({}, non_shared, kernel="dense"),
        "non_shared, array": variant({}, non_shared, kernel="array"),
    }


def spent(trial: Trial) -> float:
    """Return the seconds of a step of one slice; weights are set up before."""
    engine = trial.engine(1)
    begin = time.perf_counter()
    run(engine)
    return (time.perf_counter() - begin) / trial.slice_steps


def quartiles(values: np.ndarray, form: str) -> str:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    about = introduce()
    networks = variants()
    networks["two_layer.toml"] = load(TWO_LAYERS, [f"run.batch={SLICES}"]).network
    networks["two_layer.toml, dense"] = load(TWO_LAYERS, [f"run.batch={SLICES}", "run.kernel=dense"]).network
    trials = {name: Trial.of(one, one.run.display) for name, one in networks.items()}
    floors = {name: Floor(one.products, 16) for name, one in trials.items() if one.products}
    jobs: dict[str, Callable[[], float]] = {}
    for name, one in trials.items():
        jobs[name] = lambda one=one: spent(one)  # type: ignore[misc]
        if name in floors:
            jobs[f"floor of {name}"] = lambda name=name: floors[name].seconds()  # type: ignore[misc]
    interleaved(jobs, 1)
    found = {name: np.array(times) for name, times in interleaved(jobs, given.rounds).items()}
    loop = found["loop, dense"]
    rows = []
    for name, one in trials.items():
        floor = quartiles(found[name] / found[f"floor of {name}"], ".2f") if name in floors else "-"
        method = str(one.plan.method).split(",")[0].split(":")[0]
        rows.append(
            (name, method, quartiles(1e6 * found[name], ".1f"), quartiles(found[name] / loop, ".2f"), floor)
        )
    table(("network", "method", "us per slice and step", "/ dense loop", "/ dense products"), rows)
    for kernel in ("dense", "lazy"):
        ratios = found[f"shared, {kernel}"] / found[f"loop, {kernel}"]
        print(f"shared / extra_shared weights, {kernel}: {quartiles(ratios, '.3f')}")
    for method in ("non_shared", "non_shared, dense"):
        ratios = found["non_shared, array"] / found[method]
        print(f"array path / compiled, {method}: {quartiles(ratios, '.1f')}")
    print()
    keep({"machine": about, "seconds": {n: v.tolist() for n, v in found.items()}}, "networks", given.json)


if __name__ == "__main__":
    main()
