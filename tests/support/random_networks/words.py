"""The vocabulary of networks: a word for each type of part, and for each key that is not at its default.

The type `lca` is "layer lca", its transfer function "Thresholded.transfer=firm": keys are named by the class
that declares them, so that types that inherit a key share its word. Flags and choices have one word for each
value, numbers, names and arrays one for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import numpy as np

import petabatch.builtins  # noqa: F401  it imports all types
import support.films
import support.random_networks.plugins  # noqa: F401
from petabatch.spec.model import Model, Part
from petabatch.spec.schedule import DISPLAY, NEVER, STEP, Every

Keys = tuple[str | int, ...]
PLUGINS = ("adaptive", "tilted", "reels")
"""Types as those of plug-ins: a layer with a row function, an interpreted one, a source of films."""
NOT_ENTERED = ("ImagePatches.source", "Revive.init", "Layer.start")
"""Keys whose tables are drawn in a place of their own."""
MANY = ("transforms", "terms")
"""Keys that hold any number of tables, which do not exclude each other."""


class Said(NamedTuple):
    """A word of a part, and the keys from the part to the value, or to the table of a type."""

    word: str
    path: Keys
    of_table: bool


def words(part: Model) -> Iterator[Said]:
    """Yield the words of a part and of the tables in it."""
    if isinstance(part, Part):
        yield Said(type_word(type(part)), (), True)
    for key in keys(type(part)):
        name, value = named(type(part), key), getattr(part, key)
        tables = list(_tables(value))
        if name in NOT_ENTERED and tables:
            yield Said(name, (key,), False)
        elif tables:
            for path, table in tables:
                if not isinstance(table, Part):
                    yield Said(name, (key, *path), True)
                yield from (Said(one.word, (key, *path, *one.path), one.of_table) for one in words(table))
        elif not type(part).model_fields[key].is_required() and not _usual(part, key):
            yield Said(word_of(type(part), key, value), (key,), False)


def vocabulary(model: type[Model]) -> Iterator[tuple[str, Mapping[Keys, str]]]:
    """Yield the words that a table of this class can have, each with its choices by path."""
    for key in keys(model):
        name, tables = named(model, key), list(tables_of(model, key))
        if name in NOT_ENTERED and tables:
            yield name, {(key,): name}
            continue
        for table in tables:
            word = type_word(table) if issubclass(table, Part) else name
            yield word, {(key,): word}
            for inner, choices in vocabulary(table):
                yield inner, {(key,): word} | {(key, *path): choice for path, choice in choices.items()}
        if not model.model_fields[key].is_required():
            usual = word_of(model, key, model.model_fields[key].get_default(call_default_factory=True))
            for word in dict.fromkeys(_possible(model, key)):
                if word != usual or "=" not in word:
                    yield word, {(key,): word}


@cache
def words_of(part: type[Part]) -> frozenset[str]:
    """Return all words that a part of a type can have."""
    return frozenset({type_word(part)} | {word for word, _ in vocabulary(part)})


def tables_of(model: type[Model], key: str) -> Iterator[type[Model]]:
    """Yield the classes of table that a key can hold."""
    for leaf in _leaves(model.model_fields[key].annotation):
        if _is_table(leaf):
            yield from types(leaf) if issubclass(leaf, Part) else [leaf]


@cache
def types(base: type[Part]) -> list[type[Part]]:
    """Return the types of a kind of part: those that are built in, and some that stand for plug-ins."""
    built_in = [part for part in base.choices().values() if part.__module__.startswith("petabatch.")]
    return built_in + [part for name, part in base.choices().items() if name in PLUGINS]


@cache
def type_word(part: type[Part]) -> str:
    """Return the word of a type."""
    return f"{part.kind} {part.model_fields['type'].default}"


@cache
def keys(model: type[Model]) -> list[str]:
    """Return the keys of a table other than its type."""
    return [key for key in model.model_fields if key != "type"]


@cache
def named(model: type[Model], key: str) -> str:
    """Return a key with the class that declares it."""
    declaring = next(c for c in model.__mro__ if key in get_annotations(c))
    return f"{declaring.__name__}.{key}"


def word_of(model: type[Model], key: str, value: Any) -> str:
    """Return the word of a value of a key, or of the table that it is."""
    name = named(model, key)
    if isinstance(value, Part) and name not in NOT_ENTERED:
        return type_word(type(value))
    if isinstance(value, Every):
        return f"{name}={'never' if not value.count else 'step' if value == STEP else value.unit}"
    return f"{name}={value}" if any(value is one or value == one for one in literals(model, key)) else name


@cache
def literals(model: type[Model], key: str) -> list[Any]:
    """Return the choices of a key, and the values of a flag."""
    found: list[Any] = []
    for leaf in _leaves(model.model_fields[key].annotation):
        found += get_args(leaf) if get_origin(leaf) is Literal else [False, True] if leaf is bool else []
    return found


def replaced(table: Any, path: Keys, value: Any) -> Any:
    """Return a table with another value, checked; None takes an item out of a dictionary or a tuple."""
    key, *rest = path
    if isinstance(table, tuple | dict):
        items = dict(table) if isinstance(table, dict) else dict(enumerate(table))
        items[key] = replaced(items[key], tuple(rest), value) if rest else value
        left = {name: item for name, item in items.items() if item is not None}
        return left if isinstance(table, dict) else tuple(left.values())
    inner = replaced(getattr(table, str(key)), tuple(rest), value) if rest else value
    return type(table)(
        **{name: getattr(table, name) for name in type(table).model_fields} | {str(key): inner}
    )


def value_at(table: Any, path: Keys) -> Any:
    """Return what a path leads to."""
    for key in path:
        table = table[key] if isinstance(table, tuple | dict) else getattr(table, str(key))
    return table


def _tables(value: Any) -> Iterator[tuple[Keys, Model]]:
    """Yield the tables that a key holds, with the rest of their paths."""
    if isinstance(value, Model):
        yield (), value
    elif isinstance(value, tuple | dict):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        yield from (((key,), one) for key, one in items if isinstance(one, Model))


def _usual(part: Model, key: str) -> bool:
    value, usual = getattr(part, key), type(part).model_fields[key].get_default(call_default_factory=True)
    return not isinstance(value, np.ndarray) and bool(value == usual)


def _possible(model: type[Model], key: str) -> Iterator[str]:
    """Yield the words of all values of a key that holds no table."""
    for leaf in _leaves(model.model_fields[key].annotation):
        if leaf is Every:
            yield from (word_of(model, key, every) for every in (STEP, Every(2), DISPLAY, NEVER))
        elif get_origin(leaf) is not Literal and leaf not in (bool, NoneType) and not _is_table(leaf):
            yield named(model, key)
    yield from (f"{named(model, key)}={value}" for value in literals(model, key))


def _is_table(leaf: Any) -> bool:
    return isinstance(leaf, type) and issubclass(leaf, Model)


def _leaves(annotation: Any) -> Iterator[Any]:
    """Yield what an annotation consists of: classes, `Literal`s, and collections of anything but tables."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _leaves(arguments[0])
    elif origin in (Union, UnionType):
        for one in arguments:
            yield from _leaves(one)
    elif origin in (tuple, dict) and any(_is_table(leaf) for one in arguments for leaf in _leaves(one)):
        yield from (leaf for one in arguments for leaf in _leaves(one) if leaf not in (..., str))
    else:
        yield annotation
