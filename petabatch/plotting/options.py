"""The options of a plot: the keyword arguments of its function, as the command line reads them."""

from __future__ import annotations

import argparse
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Option:
    """What the command line says of a keyword argument; `Annotated[int | None, Option("rows", least=1)]`."""

    help: str
    least: int | None = None
    """Smallest number, of an int."""


Connection = Annotated[str | None, Option("connection that has the dictionary (default: the first recorded)")]
Code = Annotated[str | None, Option("code layer (default: the first recorded)")]
Time = Annotated[int, Option("index of the recorded time, from the end if negative")]
Slice = Annotated[int, Option("slice")]
Step = Annotated[int | None, Option("step to draw (default: the last one recorded)")]
Columns = Annotated[int | None, Option("number in a row (default: automatic)", least=1)]
Grey = Annotated[bool, Option("draw every channel as a grey tile of its own, also where there are three")]
Title = Annotated[str, Option("title of the figure (default: automatic)")]


def add_options(parser: argparse.ArgumentParser, draw: Callable[..., Any]) -> None:
    """Add the options of a plot to a parser."""
    hints = get_type_hints(draw, include_extras=True)
    for name, argument in inspect.signature(draw).parameters.items():
        if get_origin(hint := hints[name]) is Annotated:
            kind, option = get_args(hint)
            _add(parser, f"--{name.replace('_', '-')}", kind, option, argument.default)


def option_names(draw: Callable[..., Any]) -> list[str]:
    """Return the keyword arguments that are options."""
    hints = get_type_hints(draw, include_extras=True)
    return [name for name in inspect.signature(draw).parameters if get_origin(hints[name]) is Annotated]


def takes_several_runs(draw: Callable[..., Any]) -> bool:
    """Return whether a plot compares runs: `draw(run, *others)`."""
    return any(
        argument.kind is argument.VAR_POSITIONAL for argument in inspect.signature(draw).parameters.values()
    )


def _add(parser: argparse.ArgumentParser, flag: str, kind: Any, option: Option, default: Any) -> None:
    text = option.help.replace("%", "%%")
    if default not in (None, False, "", ()):
        text += f" (default: {default})"
    if kind is bool:
        parser.add_argument(flag, action="store_true", help=text)
        return
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(each for each in get_args(kind) if each is not type(None))
    keys: dict[str, Any] = {"help": text, "default": default, "metavar": flag.strip("-").upper()[:1]}
    if get_origin(kind) is Literal:
        keys |= {"choices": get_args(kind), "metavar": None}
    elif get_origin(kind) is tuple:
        keys |= {"nargs": len(get_args(kind)), "type": get_args(kind)[0], "metavar": None}
    elif get_origin(kind) is not None:  # Sequence[...]
        keys |= {"nargs": "+", "type": get_args(kind)[0]}
    else:
        keys["type"] = kind if option.least is None else _at_least(option.least)
    parser.add_argument(flag, **keys)


def _at_least(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)  # argparse reports a ValueError
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is not a number of at least {least}")
        return value

    number.__name__ = "int"
    return number
