"""The engine of a rank, in its initial state, from a loaded network."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from petabatch.engine.engine import Engine
from petabatch.engine.evaluation import Evaluation
from petabatch.engine.features import AllFeatures
from petabatch.engine.fitting import fitted_sources, to_be_fitted, with_sources
from petabatch.engine.gpu.choose import choose
from petabatch.engine.split import Split
from petabatch.errors import ParamsError
from petabatch.parallel.comm import Comm, share
from petabatch.parallel.consistency import assert_same_environment, fingerprint
from petabatch.parallel.cores import lane_threads
from petabatch.parallel.grid import grid
from petabatch.params import plan
from petabatch.report.memory import refuse_shortage
from petabatch.spec.load import Loaded, resolved
from petabatch.start_from import initialise_from
from petabatch.storage.provenance import blas_libraries, compiler, library_versions
from petabatch.version import __version__


def assert_same_software(comm: Comm, loaded: Loaded) -> None:
    """Raise ResourceError when ranks differ in params, or in software that decides the bits; collective."""
    if comm.size > 1:
        params = json.dumps(resolved(loaded.network), sort_keys=True)
        own = {"petabatch": __version__, "BLAS": ", ".join(blas_libraries()), "params": fingerprint(params)}
        assert_same_environment(comm, {**library_versions(), **compiler(), **own})


def fitted(loaded: Loaded, comm: Comm) -> Loaded:
    """Return the network with what is fitted to its images, on rank 0, so that all ranks have the same bits.

    Collective. The run keeps it with its params, for resuming and encoding.
    """
    network = loaded.network
    if not to_be_fitted(network):
        return loaded
    graph = plan(loaded, hosts=len(set(comm.hosts))).graph
    try:
        sources = comm.broadcast(fitted_sources(graph) if comm.rank == 0 else None)
    except ParamsError as error:
        raise loaded.placed(error) from None
    return replace(loaded, network=with_sources(network, sources))


def open_engine(loaded: Loaded, comm: Comm, threads: int | None) -> Engine:
    """Return the engine of this rank, with its slices and its share of the features; collective."""
    hosts, wanted_run = len(set(comm.hosts)), loaded.network.run
    plan(loaded, hosts=hosts)  # its errors come before those of the device
    device, wanted = choose(wanted_run, comm), loaded.network.parallel
    whole = plan(loaded, device.limits if device is not None else None, hosts)
    place = grid(comm, wanted.batch, wanted.features)
    features = Split(whole, place.features) if wanted.features > 1 else AllFeatures(whole)
    lo, hi = share(loaded.network.batch, place.batch.rank, place.batch.size)
    try:
        refuse_shortage(features.plan, comm, hi - lo, lane_threads(wanted_run, threads))
        return Engine(whole, place.batch, threads, device, features)
    except ParamsError as error:
        raise loaded.placed(error) from None


def open_evaluation(engine: Engine, loaded: Loaded) -> Evaluation | None:
    """Open the held-out images, if there are any; collective."""
    try:
        return None if loaded.network.evaluate is None else Evaluation(engine)
    except ParamsError as error:
        raise loaded.placed(error) from None


def initialise(engine: Engine, loaded: Loaded) -> None:
    """Set the initial state: that of step 0, or of a checkpoint of another run."""
    origin = loaded.network.run.start_from
    try:
        if origin is None:
            engine.start()
        else:
            initialise_from(engine, Path(origin))
    except ParamsError as error:
        raise loaded.placed(error) from None
