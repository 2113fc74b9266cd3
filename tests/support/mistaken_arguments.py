"""Each argument of each public function given what it cannot use.

`python tests/support/mistaken_arguments.py` prints what is not answered well.

A value that is not of the type of its argument must raise an error of petabatch that names the argument, what
was found and what was expected. One of the type may be taken, or refused by an error of petabatch.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

VALUES: dict[str, Any] = {
    "None": None,
    "text": "text",
    "NaN": float("nan"),
    "a list": [1, 2],
    "a list of text": ["a", "b"],
    "a dict": {"a": 1},
    "an array": np.zeros((2, 3)),
    "an object": object(),
    "-1": -1,
}


@dataclass(frozen=True)
class Call:
    """A public function, with arguments that it takes."""

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    hints: Mapping[str, Any]

    @property
    def varied(self) -> list[str]:
        """The arguments that are given other values."""
        return [name for name in self.hints if name not in ("return", "self", "cls", "figure", "others")]


def call(called: str, using: Callable[..., Any], told: Any = None, /, **arguments: Any) -> Call:
    """Return the call of a function; `told` has its annotations where it is not that function."""
    told = told or using
    hints = get_type_hints(told, include_extras=False)
    parameters = inspect.signature(told).parameters.values()
    names = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    return Call(called, using, arguments, {key: hints.get(key, Any) for key in names})


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of an annotated type."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or hint is object or hint is inspect.Parameter.empty:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(value is one or (type(value) is type(one) and value == one) for one in inner)
    if origin is Annotated:
        return fits(value, inner[0])
    if hint in (None, type(None)):
        return value is None
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is tuple and len(inner) == 2 and inner[1] is not ...:
        return isinstance(value, tuple | list) and len(value) == 2 and all(map(fits, value, inner))
    if origin in (Sequence, tuple, list):
        return (
            isinstance(value, Sequence)
            and not isinstance(value, str)
            and all(fits(v, inner[0]) for v in value)
        )
    if origin is not None:
        return isinstance(value, origin)
    return isinstance(value, hint) or (hint is os.PathLike and isinstance(value, Path))


def failures(calls: Sequence[Call]) -> Iterator[str]:
    """Yield what is not answered as it should be."""
    for one in calls:
        for argument, (title, value) in product(one.varied, VALUES.items()):
            answer = _answer(one, argument, value)
            if answer:
                yield f"{one.name}: {argument} = {title}: {answer}"


def _answer(one: Call, argument: str, value: Any) -> str:
    """Return what is wrong with the answer to a value, in words; empty if nothing is."""
    from petabatch.errors import PetabatchError

    right = fits(value, one.hints[argument])
    try:
        one.function(**{**one.arguments, argument: value})
    except PetabatchError as error:
        return "" if right or _told(str(error), argument, one) else f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if right else "taken"


def _told(said: str, argument: str, one: Call) -> bool:
    """Return whether a message names the argument, what was found and what was expected.

    That of `run[...]` has no name: it says what there is.
    """
    if one.name.endswith("[...]"):
        return "expected:" in said
    return argument in said.splitlines()[0] and "found:" in said and "expected:" in said


def table_failures() -> Iterator[str]:
    """Yield keys of tables for which a value raises anything but an error that names the key."""
    import petabatch
    from petabatch import builtins  # noqa: F401 - makes every type known
    from petabatch.errors import TableError
    from petabatch.spec.model import Part

    tables: list[Any] = [petabatch.Network, petabatch.Run, petabatch.Output, petabatch.Checkpoint]
    tables += [part for base in Part.__subclasses__() for part in base.choices().values()]
    for table in tables:
        if not table.__module__.startswith("petabatch."):
            continue
        for key in table.model_fields:
            for title, value in VALUES.items():
                try:
                    table(**{key: value})
                except TableError as error:
                    if any(not problem.message for problem in error.problems):
                        yield f"{table.__name__}: {key} = {title}: {error}"
                except Exception as error:
                    yield f"{table.__name__}: {key} = {title}: {type(error).__name__}: {error}"


def public_calls(folder: Path) -> list[Call]:
    """Return the public functions; `folder`, the working directory, gets a params file and a run."""
    import matplotlib as mpl

    mpl.use("agg")
    import petabatch
    from petabatch import in_memory, plotting
    from petabatch.plotting.kinds import KINDS, draw_function, reason_against
    from petabatch.results import Results
    from petabatch.results.series import Series
    from petabatch.simulator import Simulator
    from petabatch.simulator.parts import Part
    from support.commands import SMALL
    from support.networks import images, lca_network

    np.save(folder / "images.npy", np.random.default_rng(3).random((7, 12, 12, 3)).astype("f4"))
    file = folder / "small.toml"
    file.write_text(SMALL)
    loaded = petabatch.load(file, ["run.displays=2", "probes.energy.every=1"])
    petabatch.run(loaded, folder / "run", quiet=True, mpi=False).close()
    run = petabatch.open(folder / "run")
    code = run["layers/V1/A"]
    net = lca_network(images(1), displays=1)
    sim = Simulator(net, threads=1)
    sim.callback(print, every=10**6)
    part = sim["V1"]
    draws = [(kind, draw_function(kind)) for kind in KINDS if not reason_against(kind, run)]
    grey = np.random.default_rng(4).random((2, 4, 4))
    codes = petabatch.encode(grey, grey, 0.3, stride=2, steps=2, threads=1)
    fresh = iter(range(10**9))

    def new() -> Path:
        return folder / f"new{next(fresh)}"

    def made(**arguments: Any) -> None:
        Simulator(**arguments).close()

    def assign(name: Any, value: Any) -> None:
        part[name] = value

    def assign_elements(index: Any, value: Any) -> None:
        part["V"][index] = value

    def live(quantities: Any) -> None:
        plotting.live(quantities)(sim)

    def resume(**arguments: Any) -> Any:
        return petabatch.resume(**arguments)

    def draw(function: Callable[..., Any]) -> Callable[..., Any]:
        def drawn(**arguments: Any) -> None:
            import matplotlib.pyplot as plt

            function(**arguments)
            plt.close("all")

        return drawn

    return [
        call("check", petabatch.check, network=net),
        call("load", petabatch.load, file=file),
        call("open", petabatch.open, path=folder / "run"),
        call(
            "run",
            lambda **given: petabatch.run(**{"out": new(), **given}),
            petabatch.run,
            network=loaded,
            quiet=True,
            mpi=False,
        ),
        call("resume", resume, petabatch.resume, path=folder / "run", quiet=True, mpi=False),
        call(
            "sweep",
            lambda **given: next(petabatch.sweep(**given)),
            petabatch.sweep,
            network=net,
            points={"layers.V1.threshold": [0.3, 0.4]},
            threads=1,
        ),
        call("in_memory.run", in_memory.run, network=net, threads=1),
        call(
            "sparse_coding",
            petabatch.sparse_coding,
            image=net.layers["image"],
            code=net.layers["V1"],
            dictionary=net.connections["dictionary"],
            run={"steps": 1},
        ),
        call(
            "encode",
            petabatch.encode,
            images=grey,
            dictionary=grey,
            threshold=0.3,
            stride=2,
            steps=2,
            threads=1,
        ),
        call(
            "encode_stream",
            lambda **given: [*petabatch.encode_stream(**given)],
            petabatch.encode_stream,
            images=grey,
            dictionary=grey,
            threshold=0.3,
            batch=2,
        ),
        call("Codes[...]", codes.__getitem__, index=0),
        call("Simulator", made, Simulator.__init__, network=net, threads=1, mpi=False),
        call(
            "Simulator.from_run",
            lambda **given: Simulator.from_run(**given).close(),
            Simulator.from_run,
            path=folder / "run",
            threads=1,
        ),
        call("Simulator.step", sim.step),
        call("Simulator.run", sim.run, quiet=True),
        call("Simulator.show", sim.show, layer="image", images=0.0),
        call("Simulator.callback", sim.callback, function=print, every=10**6),
        call("Simulator.remove_callback", sim.remove_callback),
        call("Simulator.save", sim.save),
        call("Simulator.load", sim.load, saved=sim.save()),
        call("Simulator[...]", sim.__getitem__, Simulator.__getitem__),
        call("Part[...]", part.__getitem__, Part.__getitem__),
        call("Part[...] = ...", assign, assign, name="V", value=0),
        call("StateArray[...] = ...", assign_elements, index=0, value=0),
        call("Part.gather", part.gather, name="V"),
        call("Results[...]", run.__getitem__, Results.__getitem__),
        call("Results.label", run.label),
        call("Results.layer", run.layer, name="V1"),
        call("Results.weights", run.weights),
        call("Results.probe", run.probe),
        call("Results.spikes", run.spikes, layer="V1"),
        call("Results.codes", run.codes, name="V1"),
        call("Results.images", run.images, layer="V1"),
        call("Results.shown", run.shown, layer="image", display=1),
        call("Results.files", run.files),
        call("Results.use", run.use, layer="V1"),
        call("Series.at", code.at),
        call("Series.index", code.index),
        call("Series[...]", code.__getitem__, Series.__getitem__),
        *(call(f"plotting.{kind}", draw(function), function, run=run) for kind, function in draws),
        call("plotting.finish", plotting.finish, figure=plotting.energy(run), output=folder / "a.png"),
        call("plotting.live", draw(live), plotting.live),
        call("plotting.described", plotting.described),
        call("plotting.psnr", plotting.psnr, image=grey, reconstruction=grey + 0.1),
        call(
            "plotting.Page",
            lambda **given: draw(plotting.energy)(run=run, figure=plotting.Page(**given)),
            plotting.Page,
        ),
    ]


def main() -> int:
    """Print what is not answered well; return whether there is such."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        calls = public_calls(Path(folder))
        count = sum(len(one.varied) for one in calls)
        found = [*failures(calls), *table_failures()]
    for one in found:
        print(one.replace("\n", "\n    "))
    print(f"{len(calls)} functions, {count} arguments, {len(VALUES)} values each: {len(found)} poor answers")
    return bool(found)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
