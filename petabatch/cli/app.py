"""The application of the command line: its verbs, and what is given before a verb."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from petabatch.errors import did_you_mean, printable
from petabatch.streams import write_error
from petabatch.version import __version__

_UsageError: Any = typer.BadParameter.__base__


class _Verbs(TyperGroup):
    """The commands, whose usage errors quote what was typed; Click leaves marks of direction in it."""

    def get_params(self, ctx: Any) -> Any:
        """Return what can be given before the verb."""
        return _plain_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb."""
        verb = super().get_command(ctx, cmd_name)
        if verb is not None:
            _plain_flags(verb.get_params(ctx))
        return verb

    def make_context(self, *arguments: Any, **keys: Any) -> Any:
        """Parse what comes before the verb."""
        with _reporting():
            return super().make_context(*arguments, **keys)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest, and run the verb."""
        with _reporting():
            return super().invoke(ctx)


def _plain_flags(options: Sequence[Any]) -> Sequence[Any]:
    """Return options, of which help shows flags, which take no value, without a type."""
    for option in options:
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    return options


@contextmanager
def _reporting() -> Iterator[None]:
    """Print usage errors as plain text, and say of Ctrl-C what typer's exit code alone does not."""
    try:
        yield
    except KeyboardInterrupt:
        write_error("interrupted\n")
        raise
    except _UsageError as error:
        hint = _hint(error)
        error.message = printable(error.message) + (f"\nhint: {hint}" if hint else "")
        raise


def _hint(error: Any) -> str:
    """Return the likely fix of a usage error that Click has none for."""
    option, words = getattr(error, "option_name", None), sys.argv[1:]
    if option is not None:
        from petabatch.spec.network import Run

        key = option.lstrip("-").replace("-", "_")
        if key not in Run.model_fields:
            return ""
        error.possibilities = ()  # options that look alike
        return f"a key of the params file is set by -s run.{key}=VALUE"
    if wrong := re.search(r"'(.*)' is not one of (.*)", error.message):
        return did_you_mean(wrong[1].partition(":")[0], re.findall(r"'(.*?)'", wrong[2]))
    if error.message.startswith("No such command") and "Did you mean" not in error.message:
        names = [one.name or getattr(one.callback, "__name__", "") for one in app.registered_commands]
        return f"the commands are {', '.join(names)}"
    for at, word in enumerate(words[:-2]):
        if word in ("-s", "--set", "--sweep") and "=" not in words[at + 1]:
            return f"{word} {words[at + 1]}={words[at + 2]}, with an equals sign"
    return ""


app = typer.Typer(
    name="petabatch",
    cls=_Verbs,
    help="Simulate batches of dynamical networks described by a params file.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def echo(text: str, end: str = "\n", file: TextIO | None = None) -> None:
    """Print a text that names what others have named."""
    print(printable(text), end=end, file=file)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    if version:
        echo(f"petabatch {__version__}")
        raise typer.Exit
