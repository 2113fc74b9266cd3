"""What a GPU takes of types, keys, demos and params files: a table, judged by runs on the emulated GPU.

    python tests/support/gpu_table.py [--networks 100] [--seed 0]       print the table, in Markdown

Started in the root of the repository, where it writes the images of demos to `runs/demos`. Each network
makes some steps on the emulation of `gpu_emulation.py` and on the CPU. A row says by which method the GPU
advances it and how far all arrays of the states differ, relative to their norms, or why it is refused.
Types, modes and keys are those of random networks (`random_networks`), each step of which is compared with
layers one by one in float64. The exit code is 1 where something differs, or is refused that the CPU takes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import petabatch  # noqa: E402
from petabatch.errors import PetabatchError  # noqa: E402
from petabatch.network.build import build  # noqa: E402
from petabatch.network.plan import schedule  # noqa: E402
from petabatch.spec.network import Network  # noqa: E402
from support.gpu_emulation import EmulatedGpu  # noqa: E402
from support.gpu_runs import state_of  # noqa: E402
from support.random_networks.campaign import Campaign  # noqa: E402
from support.random_networks.comparing import Reference  # noqa: E402
from support.random_networks.pairs import spoken  # noqa: E402
from support.random_networks.runs import run, with_run  # noqa: E402

TOLERANCE = {"tf32": 2e-3}
"""Of rows by the last word of their name; of others 1e-4."""
STEPS = 20
"""Of a display."""
KEYS = {
    "values per slice": ["layers.V1.threshold={slices=[0.3,0.5]}", "run.batch=2"],
    "values over time": ["layers.V1.threshold={at=[1,2],values=[0.5,0.3]}"],
    "sweep": ["sweep.layers.V1.threshold=[0.3,0.5]"],
    "until": [
        "run.until={gap=0.1}",
        "probes.gap={type='optimality',image='image',reconstruction='recon',code='V1',"
        "drive='error_to_V1',coefficient=0.55}",
    ],
    "evaluate": ["evaluate.every='1 displays'", "evaluate.source={type='photographs'}"],
    "plain": [],
}
"""Settings on top of a network whose dictionary is fixed, by each of the ways."""
WAYS = {"display": [], "step": ["run.kernel='step'"], "array": ["run.kernel='array'"]}
OTHERS = {
    "float64": ["run.precision='float64'"],
    "tf32": ["run.tf32=true"],
    "all weights learn apart": ["connections.dictionary.mode='shared'"],
}


class Row(NamedTuple):
    """What became of a network."""

    name: str
    way: str
    distance: float
    refused: bool = False
    """By the GPU alone."""


def judged(name: str, file: Path, settings: list[str]) -> Row:
    """Return how a network is advanced, and how far its state is from that of the CPU."""
    short = [*settings, "run.displays=2", f"run.display={STEPS}"]
    try:
        there = [setting for setting in short if setting not in ("run.kernel='step'", "run.kernel='display'")]
        _, expected = state_of(petabatch.load(file, there).network)
    except PetabatchError as error:
        return Row(name, f"no run on the CPU either: {_reason(error)}", np.nan)
    device = EmulatedGpu()
    try:
        wanted: Network = petabatch.load(file, [*short, "run.device='gpu'"]).network
        method = schedule(build(wanted), device.limits).method
        _, found = state_of(wanted, device)
    except PetabatchError as error:
        return Row(name, f"refused: {_reason(error)}", np.nan, True)
    far = [
        float(np.linalg.norm(found[key] - values) / max(np.linalg.norm(values), 1e-30))
        for key, values in expected.items()
        if key in found and values.dtype.kind == "f" and np.isfinite(values).all()
    ]
    return Row(name, str(method).split(",")[0].split(":")[0], max(far, default=0.0))


def _reason(error: PetabatchError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].split(": ", 1)[-1]


def prepare() -> None:
    """Write what demos read that others of them make."""
    rng, units = np.random.default_rng(0), 400
    patterns = rng.choice([-1.0, 1.0], size=(20, units))
    weights = patterns.T @ patterns / units
    np.save("runs/demos/hopfield_weights.npy", weights.reshape(units, 1, 1, units))
    np.save("runs/demos/hopfield_cues.npy", patterns.reshape(-1, 1, 1, units))
    short = ["run.displays=2", f"run.display={STEPS}"]
    learnt = petabatch.load("demos/digits/learn.toml", short)
    petabatch.run(learnt, "runs/demos/digits", force=True, quiet=True)


def rows() -> Iterator[Row]:
    """Judge all demos, all params files, and a network with other keys."""
    for script in sorted((ROOT / "demos").glob("*/demo.py")):
        exec(script.read_text().partition("# ## Run")[0], {})  # writes its images
    prepare()
    for file in sorted((ROOT / "demos").glob("*/*.toml")):
        yield judged(str(file.relative_to(ROOT)), file, [])
    for file in sorted((ROOT / "params").glob("*.toml")):
        yield judged(str(file.relative_to(ROOT)), file, ["run.batch=2"])
    fixed = ROOT / "params" / "lca_fixed.toml"
    for key, settings in KEYS.items():
        for way, more in WAYS.items():
            yield judged(f"{fixed.name}, {key}, {way}", fixed, ["run.batch=2", *settings, *more])
    for key, settings in OTHERS.items():
        yield judged(f"{fixed.name}, {key}", fixed, ["run.batch=2", *settings])


class Said:
    """What became of the random networks with a type, a mode or a key."""

    def __init__(self) -> None:
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.wrong: list[str] = []

    def add(self, campaign: Campaign) -> None:
        """Draw a network, and run it on the GPU."""
        network = campaign.network()
        words = {f"`{one.said.word}`" for one in spoken(network)}
        way = self._way(network, campaign)
        for word in words:
            self.counts[word][way] += 1

    def _way(self, network: Network, campaign: Any) -> str:
        device = EmulatedGpu()
        try:
            mine = with_run(network, device="gpu", kernel="auto")
            method = schedule(build(mine), device.limits).method
        except PetabatchError as error:
            self.wrong.append(f"seed {campaign._seed}: refused: {_reason(error)}")
            return "refused"
        lines, _ = Reference(network).differences(run(mine, device=device), "GPU")
        self.wrong += [f"seed {campaign._seed}: {line}" for line in lines]
        return "wrong" if lines else "layer by layer" if method.by_layers else "kernel"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print("| network | on a GPU | distance from the CPU |\n|---|---|---|")
    wrong = 0
    for row in rows():
        wrong += row.refused or row.distance > TOLERANCE.get(row.name.split()[-1], 1e-4)
        distance = "" if np.isnan(row.distance) else f"{row.distance:.1e}"
        print(f"| {row.name} | {row.way} | {distance} |", flush=True)
    said, campaign = Said(), Campaign(Path(tempfile.mkdtemp()), asked.seed)
    for _ in range(asked.networks):
        said.add(campaign)
    ways = ("kernel", "layer by layer", "refused", "wrong")
    print(f"\n| in {asked.networks} random networks | {' | '.join(ways)} |\n|---|{'---|' * len(ways)}")
    for word, counts in sorted(said.counts.items()):
        print(f"| {word} | {' | '.join(str(counts[way]) for way in ways)} |")
    print("\n".join(said.wrong))
    return bool(wrong or said.wrong)


if __name__ == "__main__":
    sys.exit(main())
