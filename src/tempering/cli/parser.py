"""Arguments read: a command with its values, or a refusal that names the nearest word."""

import argparse
import functools
from collections.abc import Callable
from typing import NoReturn

import tempering
from tempering.cli.options import COMMANDS, Command
from tempering.errors import SettingsError, nearest

__all__ = ["parsed"]

_ABOUT = "Turn an unnormalised density into a sampler: progressive tempering with diffusion."
_FIRST = (
    "First steps: `tempering run mog40 --out runs/first` fits a known density. `tempering run my_model.py:log_density "
    "--dim 3 --out runs/mine` fits one of your own."
)

_NO_COMMAND = "a command is missing, such as `tempering list` or `tempering run mog40`"


class _Parser(argparse.ArgumentParser):
    """A parser that refuses in one line, as everything else here does."""

    def error(self, message: str) -> NoReturn:
        if "invalid whole value" in message:
            message = message.replace("whole value", "whole number") + "; one is written 100000, 100_000 or 1e5"
        message = message.replace("the following arguments are required: COMMAND", _NO_COMMAND)
        raise SettingsError(f"{message}; `{self.prog} --help` shows what is allowed")


def parsed(arguments: list[str]) -> Callable[[], int | None]:
    """The command with its arguments, not yet carried out.

    Raises:
        SettingsError: for what cannot be read, with the nearest name where one is close.
    """
    parser = _Parser(prog="tempering", description=_ABOUT, epilog=_FIRST, allow_abbrev=False, formatter_class=_Help)
    version = f"tempering {tempering.__version__}"
    parser.add_argument("--version", action="version", version=version, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)
    allowed: dict[str, list[str]] = {}
    for name, command in COMMANDS.items():
        own = commands.add_parser(
            name, help=command.about, description=command.about, epilog=command.more, allow_abbrev=False
        )
        allowed[name] = [word for each in command.options for word in _added(own, each)]
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        option = f"--{arguments[0]}" if arguments[0] in ("help", "version") else None
        hint = f" (did you mean {option}?)" if option else nearest(arguments[0], COMMANDS)
        parser.error(f"unknown command {arguments[0]!r}{hint}")
    _refuse_unknown(arguments, allowed, parser)
    given, unknown = parser.parse_known_args(arguments)
    named = vars(given)
    name = named.pop("command")
    if unknown:
        parser.prog = f"tempering {name}"
        parser.error(f"unknown argument {unknown[0]!r}{_near_option(unknown[0], allowed[name])}")
    return functools.partial(_carry_out, COMMANDS[name], named)


def _refuse_unknown(arguments: list[str], allowed: dict[str, list[str]], parser: _Parser) -> None:
    """Refuse an unknown option of a command first: what else is wrong is often that it was not read."""
    if not arguments or arguments[0] not in allowed:
        return
    known = [*allowed[arguments[0]], "--help"]
    for word in arguments[1:]:
        if word.startswith("--") and len(word) > 2 and word.split("=")[0] not in known:
            parser.prog = f"tempering {arguments[0]}"
            parser.error(f"unknown argument {word!r}{_near_option(word, known)}")


def _near_option(word: str, known: list[str]) -> str:
    return nearest(word.split("=")[0], known)


class _Help(argparse.HelpFormatter):
    """Help whose second column leaves room for the longest command."""

    def __init__(self, prog: str):
        super().__init__(prog)
        self._action_max_length = max(map(len, COMMANDS)) + 4


def _added(parser: argparse.ArgumentParser, option) -> list[str]:
    """The words by which an option is given, once the parser knows it."""
    return list(parser.add_argument(*option.names, **option.how).option_strings)


def _carry_out(command: Command, named: dict) -> int | None:
    return command.function()(**named)
