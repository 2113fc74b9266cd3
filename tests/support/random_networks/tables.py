"""Random tables of a network: types and keys, drawn as they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from petabatch.errors import TableError
from petabatch.layers.timescale import TimeScale
from petabatch.learning import Hebbian, RateDecay, Revive
from petabatch.probes.cost import Cost
from petabatch.spec.model import Model, Part
from petabatch.spec.weights import Initial, Learning, Normalize
from petabatch.weights import Uniform
from support.random_networks.values import USUAL, drawn, values
from support.random_networks.words import keys, named, type_word, types, word_of, words, words_of

Shape = tuple[int, ...]
_SURELY = 1e6
"""Weight of a word that a part is to have."""


class Wanted(Protocol):
    """What a drawing asks the pairs that are yet to be drawn."""

    def weight(self, word: str, same: set[str], near: set[str], far: set[str]) -> float:
        """Return how much a word is wanted in a part.

        It has the words `same`, is beside parts with `near`, and in a network of parts with `far`.
        """

    def best(self, words: Collection[str], near: set[str], far: set[str]) -> float:
        """Return how much the most wanted word is wanted in a new part."""

    def between(self, some: set[str], others: set[str]) -> float:
        """Return how much it is wanted that parts with these words are neighbours."""

    def refuse(self, one: str, others: set[str], message: str) -> None:
        """Take note of why a table cannot have a word beside others."""


class Nothing:
    """Nothing is wanted: all choices are equally likely."""

    def weight(self, word: str, same: set[str], near: set[str], far: set[str]) -> float:
        return 0.0

    def best(self, words: Collection[str], near: set[str], far: set[str]) -> float:
        return 0.0

    def between(self, some: set[str], others: set[str]) -> float:
        return 0.0

    def refuse(self, one: str, others: set[str], message: str) -> None:
        pass


class Told(Nothing):
    """Nothing is wanted, but `refused` is told why tables are refused words."""

    def __init__(self, refused: Callable[[str, set[str], str], None]) -> None:
        self.refuse = refused  # type: ignore[method-assign]


def _refused(
    model: type[Model], given: Mapping[str, Any], chosen: Mapping[str, Any], left: str, value: Any, key: str
) -> bool:
    """Return whether a table is refused that has two of the chosen keys, and those that it must have."""
    needed = {one: chosen[one] for one in chosen if model.model_fields[one].is_required()}
    try:
        model(**given, **needed, **{left: value, key: chosen[key]})
    except TableError:
        return True
    return False


class Tables:
    """Draws tables, and keeps the files that they name in a folder."""

    def __init__(self, seed: int, folder: Path, wanted: Wanted) -> None:
        self.rng, self.folder, self.wanted = np.random.default_rng(seed), folder, wanted
        self.about = set[str]()
        """Words of what has been drawn of the network."""
        self.keys = self.one_of(1.0, 3.0, 6.0)
        """Mean number of keys of a table that are not at their defaults."""
        self.demanded = frozenset[str]()
        """Words that the part that is being drawn is to have."""

    def one_of(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def has(self, word: str, probability: float) -> bool:
        """Return whether a part is to have a word that it may have."""
        return word in self.demanded or self.chance(probability)

    def weighted(self, choices: Sequence[Any], weights: Sequence[float]) -> Any:
        shares = np.array(weights, float)
        return choices[self.rng.choice(len(choices), p=shares / shares.sum())]

    def weight(self, word: str, same: set[str], near: set[str]) -> float:
        """Return how much a word is wanted; see `Wanted`."""
        return _SURELY * (word in self.demanded) + self.wanted.weight(word, same, near, self.about)

    def type_of(
        self, base: type[Part], near: set[str] = frozenset(), among: Sequence[str] = ()
    ) -> type[Part]:
        """Draw a type of part."""
        known = [one for one in types(base) if drawn(type_word(one))]
        known = [one for one in known if not among or one.model_fields["type"].default in among]
        weights = [self.wanted.best(words_of(one), near, self.about) for one in known]
        demands = [_SURELY ** len(self.demanded & words_of(one)) for one in known]
        return self.weighted(known, [sum(both) for both in zip(weights, demands, strict=True)])

    def fill(
        self,
        model: type[Model],
        given: Mapping[str, Any],
        near: set[str] = frozenset(),
        more: Mapping[str, Sequence[Any]] | None = None,
    ) -> Any:
        """Draw a table of this class, which has the keys `given`; `more` are values of other keys.

        Raises TableError where what is given is refused.
        """
        own = {type_word(model)} if issubclass(model, Part) else set[str]()
        said = {*own}
        chosen, options = dict[str, Any](), list[tuple[str, Any, float]]()
        for key in keys(model):
            name, required = named(model, key), model.model_fields[key].is_required()
            found = [] if key in given else (more or {}).get(key, values(model, key))
            known = [(value, word_of(model, key, value)) for value in found]
            known = [(value, word) for value, word in known if drawn(word)]
            if known and (required or (name in USUAL and self.chance(0.9))):
                chosen[key], word = self.one_of(*known)
                said |= set() if required else {word}
            else:
                share = 1 / max(1, len(known))
                wanted = [(one, share + self._weight(one, word, said, near)) for one, word in known]
                options += [(key, one, weight) for one, weight in wanted]
        for _ in range(max(len(self.demanded), self.rng.poisson(self.keys))):
            options = [option for option in options if option[0] not in chosen]
            if options:
                key, value, _ = options[self.weighted(range(len(options)), [w for *_, w in options])]
                chosen[key] = value
        while True:
            try:
                return model(**given, **chosen)
            except TableError as error:
                free = [key for key in chosen if not model.model_fields[key].is_required()]
                if not free:
                    raise
                at_fault = error.problems[0].key.partition(".")[0]
                left = at_fault if at_fault in free else self.one_of(*free)
                value = chosen.pop(left)
                culprits = [
                    key for key in free if key != left and _refused(model, given, chosen, left, value, key)
                ]
                others = {word_of(model, key, chosen[key]) for key in culprits}
                if not culprits:  # what is given, and the type
                    others = {word_of(model, key, one) for key, one in given.items()} | own
                self.wanted.refuse(word_of(model, left, value), others, error.problems[0].message)

    def _weight(self, value: Any, word: str, said: set[str], near: set[str]) -> float:
        inner = [one.word for one in words(value) if drawn(one.word)] if isinstance(value, Model) else [word]
        return sum(self.weight(one, said, near) for one in inner)

    # Tables inside parts

    def time_scale(self, energy: str, near: set[str]) -> TimeScale:
        return self.fill(self.type_of(TimeScale, near), {"energy": energy}, near)

    def rule(self, near: set[str], more: Mapping[str, Sequence[Any]], previous: Initial) -> Learning:
        """Draw a learning rule; `more` are values of its keys, `previous` what a momentum may start from."""
        kind, decay = self.type_of(Learning, near), self.fill(RateDecay, {"every": 1, "fraction": 0.5})
        momentum = {"momentum": 0.5, "previous": previous} if kind is Hebbian and self.chance(0.3) else {}
        return self.fill(kind, momentum, near, {**more, "rate_decay": [decay]})

    def normaliser(self, together: Sequence[tuple[str, ...]], near: set[str]) -> Normalize:
        return self.fill(self.type_of(Normalize, near), {}, near, {"together": together})

    def revive(self) -> Revive:
        return self.fill(Revive, {"after": 1}, more={"init": [Uniform(low=-0.5, high=0.5)]})

    def cost(self, layer: str, masks: Sequence[str]) -> Cost:
        norm = self.one_of("squares", "root", "l1", "l0", "firm")
        corner = {"corner": 0.4} if norm == "firm" else {}
        return self.fill(Cost, {"layer": layer, "norm": norm, **corner}, more={"mask": masks})

    def initial(self, shape: Shape, near: set[str], batch: int, source: Any = None) -> Initial:
        """Draw an initialiser of weights, of a state (of three axes) or of synapses (of one).

        `batch` is 0 if all slices start alike; `source` shows patches.
        """
        among = ["constant", "gaussian", "truncated_normal", "uniform"] + ["array", "file"] * (0 not in shape)
        if len(shape) == 6:
            among += ["gabor", "gaussian_2d", "petavision_gaussian", "petavision_sectors"]
            among += ["petavision_one_to_one"] + ["identity"] * (shape[-3] % 2 and shape[-2] % 2)
            among += ["patches"] * (source is not None)
        asked = [word.partition(" ")[2] for word in self.demanded if word.startswith("initialiser ")]
        kind = self.type_of(Initial, near, among + [one for one in asked if one != "patches"])
        own = bool(batch) and self.has("Initial.per_slice=True", 0.5)
        given: dict[str, Any] = {"per_slice": True} if own else {}
        name = kind.model_fields["type"].default
        if name in ("array", "file"):
            values = 0.2 * self.rng.normal(size=((batch,) * own + shape))
            axes = {}
            if len(shape) == 6 and not own and shape[:2] == (1, 1) and self.chance(0.5):
                values, axes = values[0, 0].transpose(0, 3, 1, 2), {"axes": "oihw"}
            given |= ({"data": values} if name == "array" else self._stored(values)) | axes
        given |= {
            "constant": {"value": self.one_of(0.2, -0.1)},
            "gaussian": {"std": 0.2},
            "truncated_normal": {"low": -0.2, "high": 0.4},
            "uniform": {"low": -0.2, "high": self.one_of(0.1, 0.3)},
            "patches": {"source": source},
            "petavision_sectors": {"sectors": 4},
            "petavision_one_to_one": {"connections": 2},
        }.get(name, {})
        flat = {} if len(shape) == 6 else {"same_feature": []}
        return self.fill(kind, given, near, {"per_slice": [], "axes": [], **flat})

    def _stored(self, values: np.ndarray) -> dict[str, Any]:
        """Write values to a file of one of its kinds; return the keys that name them."""
        import h5py

        name = self.folder / f"{self.rng.integers(2**60):x}"
        kind = self.one_of("npy", "dataset", "connection")
        if kind == "npy":
            np.save(f"{name}.npy", values)
            return {"path": f"{name}.npy"}
        with h5py.File(f"{name}.h5", "w") as file:
            if kind == "dataset":
                file["values"] = values
                return {"path": f"{name}.h5", "dataset": "values"}
            file["connections/w/weights"] = values[None]
            return {"path": f"{name}.h5", "connection": "w"}
