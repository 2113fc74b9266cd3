"""The two-layer network: against its dense products and a torch loop, and what learning costs.

    python benchmarks/two_layers.py [--threads 1 2] [--rounds 9] [--json FILE]

`params/two_layer.toml` (an LCA on photographs, another on its code), one display of all slices, in turns: the
dense products of its connections, petabatch without learning and with both dictionaries learning, and the
fastest variant of a torch loop (`torch_two_layers.py`: convolutions with channels first or last, or unfolding
and a matrix product; each also by torch.compile with --compile). Shown are medians and quartiles over the
rounds, and how far the codes of the torch loop are from ours. Without torch (`pip install
'.[benchmarks]'` in a checkout) that part is left out, with a note.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from common import introduce, keep, options, table

from petabatch import builtins  # noqa: F401  (makes every built-in type known)
from petabatch.bench.floor import Floor
from petabatch.bench.trial import Trial, interleaved, run
from petabatch.learning import Hebbian
from petabatch.spec.load import load
from petabatch.spec.network import Network

PARAMS = Path(__file__).parents[1] / "params" / "two_layer.toml"
LEARN = {"dictionary": "error", "dictionary2": "V1error"}
"""The dictionaries, and the error against which each learns."""
TORCH_STEPS = 20
"""A step of the torch loop costs the same whatever is active."""
AGREEMENT = 100
"""Steps after which codes are compared."""


def network(kernel: str, learns: bool, display: int) -> Network:
    one = load(PARAMS, [f"run.kernel={kernel}", f"run.display={display}"]).network
    connections: dict[str, Any] = dict(one.connections)
    for name, error in LEARN.items() if learns else ():
        rule = Hebbian(error=error, rate=0.1, momentum=0.5)
        connections[name] = connections[name].model_copy(update={"learn": rule})
    return one.model_copy(update={"connections": connections})


def torch_loops(trial: Trial, compiled: bool) -> dict[str, Any]:
    """Return all variants of the torch loop, with the images and weights of a trial."""
    from torch_two_layers import KINDS, TwoLayers

    arrays, layers = trial.engine(1).state.arrays, trial.plan.graph.network.layers
    images = arrays["layers/image/A"][:, 0]
    first, second = (arrays[f"connections/{name}/weights"][0, 0, 0] for name in LEARN)
    codes: list[Any] = [layers["V1"], layers["V2"]]
    given = (images, (first, second), tuple(code.threshold for code in codes), codes[0].tau)
    found = {name: TwoLayers(name, *given) for name in KINDS}
    if compiled:
        found |= {f"{name}, compiled": TwoLayers(name, *given, compiled=True) for name in KINDS}
    return found


def distances(kernel: str, loop: Any) -> dict[str, float]:
    """Return how far the codes of the torch loop are from ours after some steps, relative to ours."""
    trial = Trial.of(network(kernel, False, AGREEMENT), AGREEMENT)
    engine = trial.engine(1)
    run(engine)
    loop.run(AGREEMENT)
    found = {}
    for name, theirs in zip(("V1", "V2"), loop.codes(), strict=True):
        history = engine.state.arrays[f"layers/{name}/A"]
        mine = history[:, engine.step % history.shape[1]]
        found[name] = float(np.linalg.norm(mine - theirs) / np.linalg.norm(mine))
        found[f"{name} active"] = float((mine != 0).mean())
    return found


def quartiles(values: np.ndarray, form: str) -> str:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def measure(kernel: str, display: int, threads: int, rounds: int, compiled: bool) -> dict[str, Any]:
    """Return the seconds of a step of a slice of everything, for each round."""
    still, learning = (Trial.of(network(kernel, learns, display), display) for learns in (False, True))
    floor = Floor(still.products, still.plan.graph.network.run.batch)
    jobs: dict[str, Callable[[], float]] = {
        "dense products": lambda: floor.seconds(threads),
        "petabatch": lambda: still.seconds(threads) / still.slice_steps,
        "petabatch, learning": lambda: learning.seconds(threads) / learning.slice_steps,
    }
    about: dict[str, Any] = {}
    if find_spec("torch"):
        import torch
        from torch_two_layers import fastest

        torch.set_num_threads(threads)
        loops = torch_loops(still, compiled)
        best, times = fastest(loops)
        about = {"torch loop": best, "variants": times, "agreement": distances(kernel, loops[best])}

        def by_torch() -> float:
            torch.set_num_threads(threads)  # an engine that ran before has limited them
            return float(loops[best].run(TORCH_STEPS))

        jobs["torch"] = by_torch
    interleaved(jobs, 1)
    return {"threads": threads, "seconds": interleaved(jobs, rounds), **about}


def main() -> None:
    parser = options(__doc__, rounds=9)
    parser.add_argument("--display", type=int, default=400, help="steps (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="try torch.compile as well")
    given = parser.parse_args()
    about = introduce()
    if not find_spec("torch"):
        print("torch is not installed (pip install '.[benchmarks]' in a checkout): no torch loop\n")
    found = [measure(given.kernel, given.display, n, given.rounds, given.compile) for n in given.threads]
    rows = []
    for one in found:
        times = {name: np.array(seconds) for name, seconds in one["seconds"].items()}
        mine = times["petabatch"]
        rows.append(
            (
                one["threads"],
                quartiles(1e6 * mine, ".0f"),
                quartiles(mine / times["dense products"], ".2f"),
                quartiles(times["petabatch, learning"] / mine, ".3f"),
                quartiles(times["torch"] / mine, ".2f") if "torch" in times else "-",
            )
        )
    header = ("threads", "us per slice and step", "/ dense products", "learning / not", "torch / petabatch")
    table(header, rows)
    for one in found:
        print({key: value for key, value in one.items() if key != "seconds"})
    keep({"machine": about, "results": found}, "two_layers", given.json)


if __name__ == "__main__":
    main()
