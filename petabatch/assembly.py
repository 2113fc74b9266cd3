"""The engine of a rank, in its initial state, from a loaded network; errors name the file and line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from petabatch.engine.assembly import Assembly
from petabatch.engine.engine import Engine
from petabatch.engine.evaluation import Evaluation
from petabatch.equations.read import Texts
from petabatch.equations.step import Step
from petabatch.equations.stored import NotAStep, step_of
from petabatch.errors import DamagedError, StorageError
from petabatch.kernels.cpu.target import LEVELS, target
from petabatch.logs import log
from petabatch.parallel.comm import Comm
from petabatch.parallel.consistency import assert_same_environment, fingerprint
from petabatch.parallel.cores import lane_threads
from petabatch.report.memory import refuse_shortage
from petabatch.spec.compiled import NotSuitable
from petabatch.spec.load import Loaded, resolved
from petabatch.spec.memory import held
from petabatch.spec.network import Network
from petabatch.start_from import Place, from_kept_origin, initialise_from, keep_origin
from petabatch.storage import FORMAT
from petabatch.storage.claim import Claim
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import OUTPUTS, POINTS
from petabatch.storage.format import format_of
from petabatch.storage.inputs import Fingerprint, compare_plugins, table
from petabatch.storage.provenance import PROCESSOR, blas_libraries, compiler, library_versions, other_software
from petabatch.storage.seal import read_json
from petabatch.version import __version__


def assert_same_software(comm: Comm, loaded: Loaded) -> None:
    """Raise ResourceError when ranks differ in params, or in software that decides the bits; collective."""
    if comm.size > 1:
        params = json.dumps(resolved(loaded.network), sort_keys=True)
        own = {"petabatch": __version__, "BLAS": ", ".join(blas_libraries()), "params": fingerprint(params)}
        facts = {**library_versions(), **compiler(), **own}
        left = PROCESSOR if portable(loaded.network) else ()
        assert_same_environment(comm, {name: fact for name, fact in facts.items() if name not in left})


def portable(network: Network) -> bool:
    """Return whether all processors with AVX2 and FMA give a network the same bits, as compiled steps do."""
    run = network.run
    if run.kernel == "array" or run.device != "cpu" or target() not in LEVELS:
        return False
    try:
        for layer in network.layers.values():
            if not layer.static:
                layer.compiled_rule()
    except NotSuitable:
        return False
    return True


def tell_of_other_software(
    before: Iterable[Mapping[str, Any]], now: Mapping[str, Any], network: Network, what: str
) -> None:
    """Warn where `what` was recorded was made with other versions than those `now`, which may change bits."""
    same = portable(network)
    if found := next(filter(None, (other_software(one, now, same) for one in before)), None):
        log.warning(
            "software versions have changed, so %s may differ by rounding: %s", what, "; ".join(found)
        )


def reloaded(directory: RunDirectory, changed_input: bool, objects: Sequence[object]) -> Loaded:
    """Return the network of an existing run from `params.json`, which was resolved when the run started.

    Plug-ins are compared with those it started with before any is executed.
    """
    try:
        params = read_json(directory.resolved)
        plugins = params["plugins"]
    except (OSError, ValueError, KeyError) as error:
        raise StorageError(f"{directory.resolved}: this file is damaged: {error}") from error
    compare_plugins(directory, plugins, changed_input)
    derived = _stored_steps(directory.equations)
    loaded = Loaded.from_json(json.dumps(params), str(directory.resolved), directory.data, objects, derived)
    return from_kept_origin(directory, loaded)


def _stored_steps(path: Path) -> Mapping[Texts, Step]:
    """Return what a run has derived of its equations, nothing for runs that have stored nothing."""
    try:
        return dict(map(step_of, read_json(path)["layers"].values()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, NotAStep) as error:
        raise DamagedError(f"{path}: this file is damaged: {error}") from error


def _derived(network: Network) -> dict[str, object]:
    """Return what was derived of the equations of layers, for people to read and for resuming."""
    found = {name: dict(layer.derived) for name, layer in network.layers.items() if layer.derived}
    return {"petabatch_format": FORMAT, "layers": found} if found else {}


def require_format(network: Network) -> None:
    """Raise ResourceError unless the packages are installed that `output.format` needs."""
    format_of(OUTPUTS[network.output.format]).require()


def new_directory(
    loaded: Loaded,
    out: Path,
    force: bool,
    files: Sequence[Fingerprint],
    claim: Claim | None,
) -> RunDirectory:
    """Make the directory of a new run; called on rank 0.

    Points of a sweep start from a copy of a checkpoint: the run that it is of may go on and remove it.
    """
    return RunDirectory.create(
        out,
        loaded.text,
        Path(loaded.file).suffix if loaded.file.endswith((".toml", ".py")) else ".toml",
        force,
        resolved(loaded.network),
        table(files),
        {array.digest: array.array for array in held(loaded.network)},
        claim,
        (
            *[POINTS] * (loaded.network.sweep is not None or loaded.network.run.pool),
            *OUTPUTS[loaded.network.output.format].folders,
        ),
        _derived(loaded.network),
        lambda made: None if loaded.network.sweep is None else keep_origin(made, loaded.network.run),
    )


def assembled(loaded: Loaded, comm: Comm, threads: int | None) -> tuple[Loaded, Assembly]:
    """Return the network with what is fitted to its images, and the assembly of its engine; collective.

    The run keeps what was fitted with its params, for resuming and encoding.
    """
    with loaded.placing():
        assembly = Assembly.of(loaded.network, comm, threads)
    return replace(loaded, network=assembly.network), assembly


@contextmanager
def opened(loaded: Loaded, assembly: Assembly) -> Iterator[tuple[Engine, Evaluation | None]]:
    """Open the engine of this rank, if there is memory for it, and the held-out images, if there are any.

    Collective. Both are closed at the end of the block.
    """
    threads = lane_threads(loaded.network.run, assembly.threads)
    with ExitStack() as stack:
        with loaded.placing():
            refuse_shortage(assembly.features.plan, assembly.comm, len(assembly.slices), threads)
            engine = stack.enter_context(closing(assembly.engine()))
            evaluation = None
            if loaded.network.evaluate is not None:
                evaluation = stack.enter_context(closing(Evaluation(engine)))
        yield engine, evaluation


def initialise(engine: Engine, loaded: Loaded, place: Place | None = None) -> None:
    """Set the initial state: that of step 0, or of a checkpoint of another run.

    Of points of a sweep, `place` says which of its slices they are.
    """
    with loaded.placing():
        if loaded.network.run.start_from is None:
            engine.start()
        else:
            initialise_from(engine, place)
