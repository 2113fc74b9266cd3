"""What a GPU takes of types, keys, demos and params files: a table, judged by runs on the emulated GPU.

    python tests/support/gpu_table.py [--networks 100] [--seed 0] [--jobs 2] [--write] [--real]

Started in the root of the repository, where it writes the images of demos to `runs/demos`. Each network
makes some steps on the emulation of `gpu_emulation.py` and on the CPU. The table says which way the GPU
advances each, and how far arrays of the states differ at most, relative to their norms. Types, modes and keys
are those of random networks (`random_networks`), drawn for what none has had yet; each of their steps is
compared with layers one by one in float64. What differs, or is refused that the CPU takes, is printed below
the table; the exit code is then 1. `--write` puts the table into `benchmarks/RESULTS.md`, in the place of
the one that is there. With `--real` the GPU of this machine takes the place of the emulation.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import petabatch  # noqa: E402
from petabatch.engine import assembly  # noqa: E402
from petabatch.engine.gpu.device import Gpu  # noqa: E402
from petabatch.errors import PetabatchError  # noqa: E402
from petabatch.network.build import build  # noqa: E402
from petabatch.network.method import Method  # noqa: E402
from petabatch.network.plan import schedule  # noqa: E402
from petabatch.parallel.comm import Serial  # noqa: E402
from petabatch.spec.load import Loaded  # noqa: E402
from petabatch.spec.network import Network, Run  # noqa: E402
from petabatch.storage.point_rows import Rows  # noqa: E402
from petabatch.waves.compute import Making  # noqa: E402
from petabatch.waves.items import Items  # noqa: E402
from petabatch.waves.team import Team  # noqa: E402
from support.gpu_emulation import EmulatedGpu  # noqa: E402
from support.gpu_runs import split_state_of, state_of  # noqa: E402
from support.random_networks.campaign import Campaign  # noqa: E402
from support.random_networks.comparing import Reference  # noqa: E402
from support.random_networks.coverage import Coverage  # noqa: E402
from support.random_networks.pairs import possible, spoken  # noqa: E402
from support.random_networks.runs import run, with_run  # noqa: E402
from support.random_networks.values import drawn  # noqa: E402
from support.sparse_coding import CODES  # noqa: E402
from support.sparse_coding import network as with_code  # noqa: E402

PAGE = ROOT / "benchmarks" / "RESULTS.md"
BEGIN, END = "<!-- table of tests/support/gpu_table.py -->\n", "<!-- end of the table -->\n"
TOLERANCE, TF32 = 1e-4, 2e-3
LEAST = 5e4
"""Times as large as its float32 is off on the CPU an array is, at least, when a distance is related to it:
a mean of numbers that cancel each other has no size of its own."""
STEPS = 20
"""Of a display."""
WANTED = 10.0
"""Weight of a word that no random network has had, beside 1 of the others."""
PLAIN = ["run.batch=2", "run.displays=2", f"run.display={STEPS}"]
IMAGE = ["layers.image.source={type='photographs'}"]
"""In place of images that are not in the repository."""
KEYS = {
    "values per slice": ["layers.V1.threshold={slices=[0.3,0.5]}"],
    "values over time": ["layers.V1.threshold={at=[1,2],values=[0.5,0.3]}"],
    "sweep": ["sweep.layers.V1.threshold=[0.3,0.5]"],
    "until": [
        "run.until={gap=0.1}",
        "probes.gap={type='optimality',image='image',reconstruction='recon',code='V1',"
        "drive='error_to_V1',coefficient=0.55}",
    ],
    "evaluate": ["evaluate.every='1 displays'", "evaluate.source={type='photographs'}"],
    "pool": ["run.pool=true"],
    "image held once": [
        "layers.image.batch=1",
        "layers.image.every='never'",
        "layers.image.source={type='photographs',slices='same'}",
    ],
    "weights of each slice": ["connections.dictionary.mode='shared'"],
    "no key": [],
}
"""Settings on top of a network whose dictionary is fixed, by each of the ways."""
_DRAWN = "connections.dictionary.init={type='gaussian',std=0.05}"
LAYERS_ONLY = {
    "weights of each unit": ["connections.dictionary.mode='extra_non_shared'", _DRAWN],
    "weights of each unit and slice": ["connections.dictionary.mode='non_shared'", _DRAWN],
    "float64": ["run.precision='float64'"],
    "features split over ranks": ["parallel.features=2"],
}
WAYS = {"display kernel": "display", "step kernel": "step", "layer by layer": "array"}
Arrays = Mapping[str, np.ndarray]
Load = Callable[[], Loaded]


class Row(NamedTuple):
    """What became of a network."""

    group: str
    name: str
    way: str
    distance: float = 0.0
    problem: str = ""
    """What the GPU does not do, or does otherwise than the CPU."""


Judge = Callable[[], Row]


def gpu(run: Run) -> Any:
    """Return the GPU of this machine with `--real`, else an emulated one."""
    return Gpu(0, run.tf32) if "--real" in sys.argv else EmulatedGpu()


def judged(group: str, name: str, load: Load, tolerance: float = TOLERANCE) -> Row:
    """Return how a network is advanced on a GPU, and how far its state is from that of the CPU."""
    given = load()
    run = given.network.run
    device = gpu(run)
    here = run.model_copy(update={"device": "cpu", "kernel": "auto", "tf32": False})
    wanted = _on(given, run.model_copy(update={"device": "gpu"}))
    try:
        expected = _state(_on(given, here), None)
    except PetabatchError as error:
        return Row(group, name, "none", 0.0, f"no run on the CPU either: {_reason(error)}")
    try:
        way = _way(schedule(build(wanted.network), device.limits).method)
        found = _state(wanted, device)
    except PetabatchError as error:
        return Row(group, name, "refused", 0.0, f"refused: {_reason(error)}")

    def exact() -> Arrays:
        return _state(_on(given, here.model_copy(update={"precision": "float64"})), None)

    far = _distance(found, expected, exact)
    return Row(group, name, way, far, f"differs by {far:.1e}" if far > tolerance else "")


def _on(given: Loaded, run: Run) -> Loaded:
    return replace(given, network=given.network.model_copy(update={"run": run}))


def _distance(found: Arrays, expected: Arrays, exact: Callable[[], Arrays]) -> float:
    """Return the largest distance of two arrays, relative to their norms; `exact` are those of float64."""
    norm = np.linalg.norm
    compared = [
        key
        for key, values in expected.items()
        if key in found and values.dtype.kind == "f" and np.isfinite(values).all()
    ]
    assert compared

    def far(key: str, scale: float) -> float:
        return float(norm(found[key] - expected[key]) / max(norm(expected[key]), scale, 1e-30))

    largest = max(far(key, 0.0) for key in compared)
    if largest <= TOLERANCE:
        return largest
    precise = exact()
    return max(far(key, LEAST * float(norm(expected[key] - precise[key]))) for key in compared)


def _state(given: Loaded, device: Any) -> Arrays:
    """Return all arrays at the end of a run; of a pool what it records."""
    network = given.network
    if network.run.pool:
        return _pooled(given, device)
    if network.parallel.parts > 1:
        return split_state_of(network, *[device] * network.parallel.parts)
    return state_of(network, device)[1]


def _pooled(given: Loaded, device: Any) -> Arrays:
    items = Items.of(given, Serial(), 1)
    team = Team.of(Serial(), items.base, 1)
    parts = items.parts(items.points(), team)
    with patch.object(assembly, "choose", lambda network, comm: device):
        waves = list(items.computed(parts, Making(team, lambda: False)))
    return dict(Rows.joined([wave.rows for wave in waves]).columns)


def _way(method: Method) -> str:
    if not method.by_layers:
        return f"{method.kernel} kernel"
    return "layer by layer, with generated kernels" if "" in method.rows.values() else "layer by layer"


def _reason(error: PetabatchError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].split(": ", 1)[-1]


def prepare() -> None:
    """Write what demos read that others of them make."""
    for folder in sorted({file.parent for file in _demos()}):
        exec((folder / "demo.py").read_text().partition("# ## Run")[0], {})  # writes its images
    rng, units = np.random.default_rng(0), 400
    patterns = rng.choice([-1.0, 1.0], size=(20, units))
    weights = patterns.T @ patterns / units
    np.save("runs/demos/hopfield_weights.npy", weights.reshape(units, 1, 1, units))
    np.save("runs/demos/hopfield_cues.npy", patterns.reshape(-1, 1, 1, units))
    learnt = petabatch.load("demos/digits/learn.toml", PLAIN[1:])
    petabatch.run(learnt, "runs/demos/digits", force=True, quiet=True)


def _demos() -> list[Path]:
    """Return the params files of demos; a demo without one runs those of `params`."""
    return sorted((ROOT / "demos").glob("*/*.toml"))


def demos() -> Iterator[Judge]:
    """Yield all demos."""
    for file in _demos():
        name = file.parent.name + (f"/{file.stem}" if len(list(file.parent.glob("*.toml"))) > 1 else "")
        yield partial(judged, "demos", name, partial(petabatch.load, file, PLAIN[1:]))


def params_files() -> Iterator[Judge]:
    """Yield all params files."""
    for file in sorted((ROOT / "params").glob("*.toml")):
        yield partial(_of_params, file)


def _of_params(file: Path) -> Row:
    row = judged("params files", file.stem, partial(petabatch.load, file, PLAIN))
    if row.way != "none":
        return row
    return judged(
        "params files", f"{file.stem} (photographs)", partial(petabatch.load, file, [*PLAIN, *IMAGE])
    )


def keys() -> Iterator[Judge]:
    """Yield a network with other keys."""
    fixed = partial(petabatch.load, ROOT / "params" / "lca_fixed.toml")
    for key, settings in KEYS.items():
        for way, kernel in WAYS.items():
            given = [*PLAIN, *settings, "run.device='gpu'", f"run.kernel='{kernel}'"]
            yield partial(judged, f"keys, {way}", key, partial(fixed, given))
    for key, settings in LAYERS_ONLY.items():
        yield partial(judged, "keys, layer by layer", key, partial(fixed, [*PLAIN, *settings]))
    yield partial(judged, "keys, step kernel", "tf32", partial(fixed, [*PLAIN, "run.tf32=true"]), TF32)


def codes() -> Iterator[Judge]:
    """Yield sparse-coding loops of all code layers."""
    for code in CODES:
        for way, kernel in {**WAYS, "auto": "auto"}.items():
            if way != "display kernel" or not code.startswith("fista"):
                yield partial(judged, f"codes, {way}", code, partial(_coded, code, kernel))


def _coded(code: str, kernel: str) -> Loaded:
    return Loaded(with_code(code, learn=False, device="gpu", kernel=kernel), "")


class Unseen(Coverage):
    """Wants the types, modes and keys that no network has had yet."""

    def __init__(self) -> None:
        super().__init__(["GPU"])
        self.seen = set[str]()

    def weight(self, word: str, same: set[str], near: set[str], far: set[str]) -> float:
        return 0.0 if word in self.seen else WANTED

    def between(self, some: set[str], others: set[str]) -> float:
        return 0.0

    @property
    def left(self) -> set[str]:
        """What no network has had."""
        return _words() - self.seen


def drawn_networks(networks: int, seed: int) -> Iterator[tuple[Network, set[str], int]]:
    """Yield so many networks, their words and seeds; then those with words that none of them had.

    Of the latter as many are drawn, at most.
    """
    campaign, unseen = Campaign(Path(tempfile.mkdtemp()), seed), Unseen()
    campaign.coverage = unseen
    for number in range(2 * networks):
        if number >= networks and not unseen.left:
            return
        network = campaign.network()
        words = {one.said.word for one in spoken(network)}
        if number < networks or words & unseen.left:
            yield network, words, campaign._seed
        unseen.seen |= words


def judged_by_step(network: Network, seed: int) -> tuple[str, list[str]]:
    """Return how a random network is advanced on a GPU, and what is wrong with its steps."""
    try:
        mine = with_run(network, device="gpu", kernel="auto")
        device = gpu(mine.run)
        way = _way(schedule(build(mine), device.limits).method)
        found = run(mine, device=device)
    except PetabatchError as error:
        return "refused", [f"seed {seed}: refused: {_reason(error)}"]
    lines, _ = Reference(network).differences(found, "GPU")
    return "wrong" if lines else way, [f"seed {seed}: {line}" for line in lines]


def by_word(counts: Mapping[str, Counter[str]], networks: int) -> Iterator[str]:
    """Yield the lines of a table of random networks: types by their kind, modes and keys."""
    ways = ("layer by layer", "layer by layer, with generated kernels", "refused", "wrong")
    yield f"| in {networks} random networks | drawn | of them in networks that run {' | '.join(ways)} |"
    yield f"|---|---|{'---|' * len(ways)}"
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for word in _words() | counts.keys():
        kind = word.rpartition(" ")[0] if " " in word and "=" not in word else ""
        kinds[kind or ("modes" if ".mode=" in word else "keys and their values")].add(word)
    for kind, members in sorted(kinds.items()):
        seen = members & counts.keys()
        each = [sum(bool(counts[word][way]) for word in seen) for way in ways]
        name = f"types of {kind}" if kind[:4] not in ("keys", "mode") else kind
        yield f"| {name} | {len(seen)} of {len(members)} | {' | '.join(map(str, each))} |"


def _say(row: Future[Row]) -> None:
    print(*(row.exception() or row.result(),), sep=", ", file=sys.stderr, flush=True)


def _broken(judgement: Future[Any]) -> str:
    """Return the error of a network whose run ended with one, as one line."""
    error = judgement.exception()
    return "" if error is None else f"{type(error).__name__}: {' '.join(str(error).split())}"


def _words() -> set[str]:
    """Return the words that random networks can have."""
    words = {word for pairs in possible().values() for pair in pairs for word in pair if drawn(word)}
    return {word for word in words if word == word.strip()}


def summary(found: list[Row]) -> Iterator[str]:
    """Yield the lines of a table of networks by group and way."""
    yield "| networks | way | which | largest distance from the CPU |"
    yield "|---|---|---|---|"
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in found:
        groups[row.group, row.way].append(row)
    for (group, way), members in groups.items():
        names, far = ", ".join(row.name for row in members), max(row.distance for row in members)
        yield f"| {group.partition(',')[0]} | {way} | {names} | {far:.1e} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--real", action="store_true", help="on the GPU of this machine")
    asked = parser.parse_args()
    prepare()
    found, counts, wrong = list[Row](), defaultdict[str, Counter[str]](Counter), list[str]()
    with ProcessPoolExecutor(asked.jobs, get_context("spawn" if asked.real else "fork")) as pool:
        rows = [pool.submit(judge) for judge in chain(demos(), params_files(), keys(), codes())]
        for row in rows:
            row.add_done_callback(_say)
        said = [
            (words, pool.submit(judged_by_step, network, seed))
            for network, words, seed in drawn_networks(asked.networks, asked.seed)
        ]
        found = [row.result() for row in rows if not _broken(row)]
        wrong += [f"a network of the table: {_broken(row)}" for row in rows if _broken(row)]
        for words, judgement in said:
            broken = _broken(judgement)
            way, lines = ("wrong", [broken]) if broken else judgement.result()
            print(f"random network, {way}", *lines, sep="\n  ", file=sys.stderr, flush=True)
            wrong += lines
            for word in words:
                counts[word][way] += 1
    text = "\n".join([*summary(found), "", *by_word(counts, len(said))])
    problems = [f"{row.group}, {row.name}: {row.problem}" for row in found if row.problem] + wrong
    print(text, f"not drawn: {', '.join(sorted(_words() - counts.keys()))}", *problems, sep="\n")
    if asked.write:
        before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{text}\n{END}{rest.partition(END)[2]}", "utf-8")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
