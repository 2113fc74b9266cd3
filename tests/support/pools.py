"""Slices of a network that come into free slots in any order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from petabatch.engine.engine import Engine
from petabatch.engine.pool import Pool
from petabatch.errors import PetabatchError
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from support.random_runs import Arrays


def pooled(
    network: Network, size: int, threads: int, seed: int
) -> tuple[Arrays, list[PetabatchError | None]]:
    """Return what slices record that come in any order into slots of some, and why they failed."""
    plan = schedule(build(network))
    plan = replace(plan, flush=plan.length, tolerant=True, method=replace(plan.method, together=size))
    batch = network.run.batch
    engine = Engine(plan, Serial(), threads, slices=range(min(batch, size * threads)))
    engine.start()
    order = np.random.default_rng(seed).permutation(batch)
    found: dict[str, np.ndarray] = {}
    failures: list[PetabatchError | None] = [None] * batch
    parts = (order[first : first + size].tolist() for first in range(0, batch, size))
    for made in Pool(engine, size).run(parts):
        for place, number in enumerate(made.numbers):
            failures[number] = made.failures[place]
        for record in made.records:
            path, values = record.stream.path, record.values
            if not record.stream.batched:
                found[path] = values
                continue
            shape = (len(values), batch, *values.shape[2:])
            found.setdefault(path, np.full(shape, -1, values.dtype))[:, list(made.numbers)] = values
    return found, failures
