"""The options of a plot: the keyword arguments of its function, as the command line reads them."""

from __future__ import annotations

import argparse
import inspect
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from petabatch.arguments import check_types, whole_number


@dataclass(frozen=True)
class Option:
    """What the command line says of a keyword argument; `Annotated[int | None, Option("rows", least=1)]`."""

    help: str
    least: int | None = None
    """Smallest number, of an int."""
    instead_of: str | None = None
    """Another option, which cannot be given together with this one."""
    parts: tuple[str, ...] | None = None
    """What help calls the numbers of a tuple."""


Connection = Annotated[str | None, Option("connection that has the dictionary (default: the first recorded)")]
Code = Annotated[str | None, Option("code layer (default: the first recorded)")]
Time = Annotated[int, Option("index of the recorded time, from the end if negative")]
Slice = Annotated[int, Option("slice to draw")]
Step = Annotated[int | None, Option("step to draw (default: the last one recorded)")]
DisplayForStep = Annotated[
    int | None, Option("display whose end to draw, instead of a step", instead_of="step")
]
DisplayForTime = Annotated[
    int | None, Option("display whose end to draw, instead of an index", instead_of="time")
]
PerRow = Annotated[int | None, Option("number of tiles in a row (default: automatic)", least=1)]
Unit = Annotated[str, Option("unit of dt, such as ms: draw time in it (default: displays, or steps)")]
Steps = Annotated[bool, Option("add an axis of steps above")]
Grey = Annotated[bool, Option("draw every channel as a grey tile of its own, also where there are three")]
Title = Annotated[str, Option("title of the figure (default: automatic)")]


def add_options(parser: argparse.ArgumentParser, draw: Callable[..., Any]) -> None:
    """Add the options of a plot to a parser."""
    options = _options(draw)
    exclusive = {
        name: parser.add_mutually_exclusive_group()
        for name in {option.instead_of for _, option, _ in options.values() if option.instead_of}
    }
    for name, (kind, option, default) in options.items():
        group = exclusive.get(option.instead_of or name, parser)
        _add(group, f"--{name.replace('_', '-')}", kind, option, default)


def option_names(draw: Callable[..., Any]) -> list[str]:
    """Return the keyword arguments that are options."""
    return list(_options(draw))


def described(draw: Callable[..., Any]) -> dict[str, str]:
    """Return what the command line says of each option."""
    return {name: _help(option, default) for name, (_, option, default) in _options(draw).items()}


def documented(draw: Callable[..., Any]) -> str:
    """Return the docstring of a plot with the sections of numpy's, made of what is said of its options."""
    said = {"run": "An open run, or a result in memory.", "others": "More of them, to compare it with."}
    said |= described(draw)
    said["figure"] = "A figure or subfigure of matplotlib to draw into, or a `Page`; by default a new figure."
    lines = [inspect.cleandoc(draw.__doc__ or ""), "", "Parameters", "----------"]
    for name in inspect.signature(draw).parameters:
        text = said[name][:1].upper() + said[name][1:]
        lines += [
            name,
            *textwrap.wrap(text.rstrip(".") + ".", 96, initial_indent="    ", subsequent_indent="    "),
        ]
    returned = "The film." if draw.__annotations__["return"] == "Movie" else "The figure of matplotlib."
    lines += ["", "Returns", "-------", returned.split()[1].rstrip("."), f"    {returned}"]
    lines += ["", "Raises", "------", "InputError", "    The run has not recorded what is drawn."]
    lines += ["ArgumentError", "    An option cannot be what was given."]
    return "\n".join(lines)


def check_options(draw: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise ArgumentError if the run and the options are not what the command line would take."""
    for run in given.get("others", ()):
        check_types(draw, {"run": run})
    check_types(draw, {name: value for name, value in given.items() if name != "others"})
    for name, (kind, option, _) in _options(draw).items():
        if kind is int and given.get(name) is not None:
            whole_number(name, given[name], option.least)


@cache
def _options(draw: Callable[..., Any]) -> dict[str, tuple[Any, Option, Any]]:
    """Return the options by name: type without None, what the command line says of it, and default."""
    hints = get_type_hints(draw, include_extras=True)
    found = {}
    for name, argument in inspect.signature(draw).parameters.items():
        if get_origin(hint := hints.get(name)) is Annotated:
            kind, option = get_args(hint)
            if get_origin(kind) in (Union, types.UnionType):
                kind = next(each for each in get_args(kind) if each is not type(None))
            found[name] = kind, option, argument.default
    return found


def takes_several_runs(draw: Callable[..., Any]) -> bool:
    """Return whether a plot compares runs: `draw(run, *others)`."""
    return any(
        argument.kind is argument.VAR_POSITIONAL for argument in inspect.signature(draw).parameters.values()
    )


def _add(group: argparse._ActionsContainer, flag: str, kind: Any, option: Option, default: Any) -> None:
    text = _help(option, default).replace("%", "%%")
    if kind is bool:
        group.add_argument(flag, action="store_true", help=text)
        return
    keys: dict[str, Any] = {"help": text, "default": default, "metavar": flag.strip("-").upper()[:1]}
    if get_origin(kind) is Literal:
        keys |= {"choices": get_args(kind), "metavar": None}
    elif get_origin(kind) is tuple:
        keys |= {"nargs": len(get_args(kind)), "type": get_args(kind)[0], "metavar": option.parts}
    elif get_origin(kind) is not None:  # Sequence[...]
        keys |= {"nargs": "+", "type": get_args(kind)[0]}
    else:
        keys["type"] = kind if option.least is None else at_least(option.least)
    group.add_argument(flag, **keys)


def _help(option: Option, default: Any) -> str:
    automatic = default is None or default is False or default in ("", ())
    return option.help if automatic else f"{option.help} (default: {default})"


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads a whole number of at least this."""

    def number(text: str) -> int:
        value = int(text)  # argparse reports a ValueError
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is not a number of at least {least}")
        return value

    number.__name__ = "int"
    return number
