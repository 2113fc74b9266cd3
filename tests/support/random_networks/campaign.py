"""The campaign of random networks: each under all steppers, on threads, ranks and an emulated GPU, resumed.

Networks are drawn for the pairs of types, keys, modes and options that have not met yet; what remains is
explained by what `check` says.
"""

from __future__ import annotations

import faulthandler
import gc
import math
import pickle
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from petabatch.errors import InputError, NonFiniteError, ParamsError, Problem
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.spec.network import Network
from support.gpu_emulation import EmulatedGpu
from support.random_networks.aiming import Aimed
from support.random_networks.comparing import INVARIANTS, Reference
from support.random_networks.coverage import Coverage
from support.random_networks.missing_pairs import with_missing_pairs
from support.random_networks.pairs import WHERE, Pair, Spoken, Where, met, pair, spoken
from support.random_networks.proofs import Proofs
from support.random_networks.real_ranks import checksum, on_real_ranks
from support.random_networks.repairing import repaired
from support.random_networks.runs import run, with_run
from support.random_networks.seen import Seen
from support.random_networks.tables import Told
from support.random_runs import finish

STEPPERS = {
    "array": {"kernel": "array"}, "dense": {"kernel": "dense"}, "lazy": {"kernel": "lazy"},
    "GPU": {"kernel": "array", "device": "gpu"},
}  # fmt: skip
"""The keys of `[run]` that name a stepper."""
STUCK = 900
"""Seconds after which a network counts as one that does not end."""
FEW = 0.8
"""Share of networks around pairs that `check` has accepted, without anything else."""
PROBES = 3
"""Networks that are drawn around a pair alone for what `check` says."""
RANKS_EVERY = 20
"""One of this many networks is run on real ranks, too."""
LARGEST = 1e4
"""Largest number of a network that is compared: rounding is soon all of a network that diverges."""


class Campaign:
    """Draws networks and compares their runs."""

    def __init__(self, folder: Path, seed: int = 0, counting: bool = True) -> None:
        """Begin; unless `counting`, no word is taken back to see whether it acts."""
        self._folder, self._seed, self._counting = folder, seed, counting
        self._on_ranks: list[Network] = []
        self._seen = Seen()
        self.coverage, self._proofs = Coverage(STEPPERS), Proofs()
        self.counts, self.problems = Counter[str](), dict[int, list[str]]()
        self.refused = Counter[str]()
        self.seconds = Counter[str]()

    def network(self) -> Network:
        """Draw a network that `check` accepts and whose numbers stay small."""
        begin = time.process_time()
        while True:
            self._seed += 1
            try:
                with warnings.catch_warnings(action="ignore"):
                    rng = np.random.default_rng(self._seed)
                    few = self.coverage.accepted(rng) if rng.random() < FEW else []
                    pairs = few or self.coverage.targets(rng)
                    drawing = Aimed(self._seed, self._folder, self.coverage, pairs, rich=not few)
                    drawn = with_missing_pairs(drawing.network(), self.coverage, self._seen, drawing)
                    (self._folder / "running.pickle").write_bytes(pickle.dumps(drawn))
                    network = repaired(drawn, self._take_out)
                self.coverage.accept(network)
                self._seen.add(network)
                (self._folder / "running.pickle").write_bytes(pickle.dumps(network))
                states = run(with_run(network, kernel="array")).states
            except ParamsError as error:
                for problem in error.problems:
                    self._refuse(problem)
            except InputError as error:  # what a plug-in's source finds when it is opened
                self._refuse(Problem("", str(error).partition("\n")[0]))
            except NonFiniteError:
                self.counts["not finite"] += 1
            else:
                if not all(_finite(network, state) for state in states):  # gone before a step that is judged
                    self.counts["not finite"] += 1
                    continue
                numbers = [a for a in states[-1].values() if a.dtype.kind == "f" and a.size]
                if all(abs(a[np.isfinite(a)]).max(initial=0) < LARGEST for a in numbers):
                    self.seconds["drawing"] += time.process_time() - begin
                    return network
                self.counts["too large"] += 1

    def prove(self, count: int) -> None:
        """Draw networks around keys that are not known to act, so many, to see whether they do."""
        begin = time.process_time()
        for key in self._proofs.missing()[:count]:
            self._seed += 1
            self._proofs.aims[key] += 1
            self.coverage.aim(("in one part", pair(*key)))
            try:
                with warnings.catch_warnings(action="ignore"):
                    pairs: list[tuple[Where, Pair]] = [("in one part", pair(*key))]
                    wanted = Told(self.coverage.refuse)
                    drawn = Aimed(self._seed, self._folder, wanted, pairs).network()
                    self._proofs.prove(repaired(drawn, self._take_out))
            except (InputError, NonFiniteError, ParamsError):
                continue
        self.seconds["proving"] += time.process_time() - begin

    def explain(self, end: float) -> None:
        """Until the time `end`, have `check` say of missing pairs whether there are networks with them."""
        for where, one in sorted(
            self.coverage.unexplained(), key=lambda found: (WHERE.index(found[0]), found)
        ):
            if time.monotonic() > end:
                return
            self.coverage.aim((where, one))
            for _ in range(PROBES):
                if self.accepts(where, one):
                    self.coverage.allowed.add((where, one))
                    break

    def accepts(self, where: Where, one: Pair) -> bool:
        """Return whether `check` accepts a network around a pair alone."""
        self._seed += 1
        try:
            with warnings.catch_warnings(action="ignore"):
                wanted = Told(self.coverage.refuse)
                drawn = Aimed(self._seed, self._folder, wanted, [(where, one)], rich=False).network()
                network = repaired(drawn, self._take_out)
        except (InputError, ParamsError):
            return False
        return one in met(network, spoken(network))[where]

    def _take_out(self, network: Network, less: Network, problem: Problem) -> None:
        self._refuse(problem)
        self.coverage.refuse_words(network, less, problem)

    def _refuse(self, problem: Problem) -> None:
        message = problem.message.partition("\n")[0]
        self.refused[re.sub(r"\b[a-z_]+\d+\b|\d+", "...", message)] += 1

    def compare(self, network: Network) -> list[str]:
        """Return what is wrong with the runs of a network; count what it has covered."""
        rng, reference = np.random.default_rng(self._seed), Reference(network)
        checks, under, found = rng.permutation(INVARIANTS), list[str](), list[str]()
        for stepper, keys in STEPPERS.items():
            try:
                build(mine := with_run(network, **keys))
            except ParamsError as error:
                for problem in error.problems:
                    self._refuse(replace(problem, message=f"{stepper}: {problem.message}"))
                continue
            under.append(stepper)
            begin = time.process_time()
            device = EmulatedGpu() if stepper == "GPU" else None
            seen = run(mine, device=device)
            lines, decided = reference.differences(seen, stepper)
            self.counts["decided by rounding"] += decided
            if device is None:
                check = checks[len(under) % len(checks)]
                lines += [f"{stepper}: {line}" for line in check(mine, seen, rng)]
            found += lines
            self.counts[stepper] += 1
            self.seconds[stepper] += time.process_time() - begin
        if self.counts["networks"] % RANKS_EVERY == 0:
            given = {**STEPPERS[str(rng.choice(under[:3]))], "device": "cpu"}
            self._on_ranks.append(with_run(network, **given))
        self.counts["networks"] += 1
        if self._counting:
            begin = time.process_time()
            self.coverage.add(met(network, self._counted(network)), under)
            self.seconds["acting"] += time.process_time() - begin
        return found

    def _counted(self, network: Network) -> Iterator[Spoken]:
        """Yield words that act, of those with pairs that are missing."""
        all_words = list(spoken(network))
        missing = self.coverage.new(network, all_words).values()
        wanted = Counter(word for pairs in missing for one in pairs for word in one)
        yield from self._proofs.counted(network, wanted)
        self.coverage.tried(met(network, [one for one in all_words if one in self._proofs.tested]))

    def go(self, networks: int, end: float = math.inf) -> Iterator[str]:
        """Compare networks until the time `end`; yield what is wrong.

        Networks of which something is wrong are kept in the folder. The process ends at one that takes more
        than `STUCK` seconds, which is left there as `running.pickle`.
        """
        while self.counts["networks"] < networks and time.monotonic() < end:
            gc.collect()
            gc.freeze()  # what earlier networks have left behind is not looked through again
            network, drawn = None, self._folder / "running.pickle"
            faulthandler.dump_traceback_later(STUCK, exit=True)
            try:
                network = self.network()
                lines = self.compare(network)
            except Exception as error:
                lines = [f"{type(error).__name__}: {error}", *traceback.format_tb(error.__traceback__)[-4:]]
            if lines:
                self.problems[self._seed] = lines
                kept = self._folder / f"network_{self._seed}.pickle"
                left = drawn.read_bytes() if network is None and drawn.exists() else pickle.dumps(network)
                kept.write_bytes(left)
                yield f"{kept}: " + "; ".join(lines[:5])
        faulthandler.cancel_dump_traceback_later()

    def on_real_ranks(self) -> Iterator[str]:
        """Run some networks on 2 and 3 real ranks; yield what differs."""
        networks, expected, self._on_ranks = self._on_ranks, list[str](), []
        for network in networks:
            engine, _ = finish(network)
            saved, variables = engine.state.saved(), engine.state.variables
            expected.append(checksum(saved, [key for key in saved if variables[key].per == "slice"]))
        for ranks in (2, 3) if networks else ():
            found = on_real_ranks(networks, ranks, self._folder)
            self.counts[f"on {ranks} real ranks"] += len(found)
            for number, both in enumerate(zip(found, expected, strict=True)):
                if both[0] != both[1]:
                    kept = self._folder / f"ranks_{ranks}_{number}_of_{self.counts['networks']}.pickle"
                    kept.write_bytes(pickle.dumps(networks[number]))
                    yield f"{kept}: differs on {ranks} real ranks"


def _finite(network: Network, state: Mapping[str, np.ndarray]) -> bool:
    """Return whether a run can go on from a state: no NaN, and no infinity where its variable has none."""
    variables = schedule(build(network)).variables
    return not any(
        np.isnan(array).any() if variables[key].infinite else not np.isfinite(array).all()
        for key, array in state.items()
        if array.dtype.kind == "f"
    )
