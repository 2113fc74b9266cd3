"""The fitting of transforms to the images of a network, before the run."""

from __future__ import annotations

from collections.abc import Mapping

from petabatch.engine.image_sizes import shape_of
from petabatch.errors import InputError, InputFileError, Problem
from petabatch.network.build import build
from petabatch.network.evaluation import shown_by
from petabatch.network.graph import Graph
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Network
from petabatch.spec.part_errors import calling
from petabatch.spec.parts import Source
from petabatch.spec.paths import file_problem

_HELD_OUT = "evaluate.source"


def to_be_fitted(network: Network) -> bool:
    """Return whether something is to be fitted to images before the run."""
    sources = [layer.images.source for layer in network.layers.values() if layer.images is not None]
    if network.evaluate is not None:
        sources.append(network.evaluate.source)
    return any(source.unfitted for source in sources)


def fitted_sources(graph: Graph) -> dict[str, Source]:
    """Return the sources with what is fitted to their images, by key, of those where something is.

    Held-out images are transformed as those of the run; what that leaves open is fitted to them. Raises
    InputFileError if the images cannot be used.
    """
    network, found, problems = graph.network, dict[str, Source](), list[Problem]()

    def fit(key: str, name: str, source: Source) -> None:
        layer = network.layers[name].images
        if layer is None or not source.unfitted:
            return
        try:
            with calling(source, key):
                found[key] = source.fitted(shape_of(graph, layer, name), network.run.seed)
        except InputError as error:
            problems.append(file_problem(key, source, error))

    for name, layer in network.layers.items():
        if layer.images is not None:
            fit(_key(name), name, layer.images.source)
    if network.evaluate is not None and not problems:
        name, source = shown_by(network), network.evaluate.source
        if _key(name) in found and source.unfitted:
            source = found[_HELD_OUT] = source.fitted_as(found[_key(name)])
        fit(_HELD_OUT, name, source)
    if problems:
        raise InputFileError(problems)
    return found


def fitted(network: Network, comm: Comm) -> Network:
    """Return a network with what is fitted to its images, on rank 0, so that all ranks have the same bits.

    Of a sweep, to those of the network without it. Collective; raises what `fitted_sources` does.
    """
    graph = build(network.model_copy(update={"sweep": None}))
    schedule(graph)  # its errors come before the images are read
    return with_sources(network, comm.broadcast(fitted_sources(graph) if comm.rank == 0 else None))


def with_sources(network: Network, sources: Mapping[str, Source]) -> Network:
    """Return the network with fitted sources, by key."""
    layers = {
        name: layer.model_copy(update={"source": sources[_key(name)]}) if _key(name) in sources else layer
        for name, layer in network.layers.items()
    }
    evaluate = network.evaluate
    if evaluate is not None and _HELD_OUT in sources:
        evaluate = evaluate.model_copy(update={"source": sources[_HELD_OUT]})
    return network.model_copy(update={"layers": layers, "evaluate": evaluate})


def _key(layer: str) -> str:
    return f"layers.{layer}.source"
