"""Every setting of a recipe as a command-line option, made from the settings themselves."""

import argparse
import ast
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

from temperflow.app.config import Config, Section
from temperflow.app.errors import UsageError, suggestion

_NOTHING = ("none", "null")
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


class Parser(argparse.ArgumentParser):
    """Argparse that refuses in this package's way, naming the option that was probably meant."""

    def __init__(self, *args: Any, **options: Any):
        options.setdefault("formatter_class", _Help)
        super().__init__(*args, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        got, _, expected = _without_prefix(message).partition("; expected ")
        raise UsageError(got=got, expected=expected, todo=f"see `{self.prog} --help`")

    def refuse_command(self, named: str, known: Sequence[str]) -> NoReturn:
        """For a first word that is no command."""
        raise UsageError(
            got=f"the command {named!r}",
            expected=f"one of {', '.join(known)}",
            todo=suggestion(named, known, f"see `{self.prog} --help`"),
        )

    def refuse_unknown(self, unknown: Sequence[str]) -> NoReturn:
        """For what was left over, with the nearest option there is."""
        options = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        if not options:
            raise UsageError(
                got=f"{unknown[0]!r}, which is one argument too many",
                expected=self.format_usage().partition("usage: ")[2].strip(),
                todo=f"see `{self.prog} --help`",
            )
        raise UsageError(
            got=f"the option {options[0]!r}, which `{self.prog}` does not have",
            todo=suggestion(options[0], self._option_string_actions, f"see `{self.prog} --help`"),
        )


class _Help(argparse.HelpFormatter):
    """Room for long option names, and paragraphs that stay as they were written."""

    def __init__(self, prog: str):
        super().__init__(prog, max_help_position=38)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(indent + line for line in text.splitlines())


def whole(least: int, below: int | None = None) -> Callable[[str], int]:
    """What turns a word into a whole number of [least, below)."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}; expected a whole number") from None
        if value < least or (below is not None and value >= below):
            wanted = f"at least {least}" if below is None else f"at least {least} and below {below}"
            raise argparse.ArgumentTypeError(f"{value}; expected {wanted}")
        return value

    return read


def among(*options: str) -> Callable[[str], str]:
    """What lets only these words pass."""

    def read(text: str) -> str:
        if text not in options:
            raise argparse.ArgumentTypeError(f"{text!r}; expected one of {', '.join(options)}")
        return text

    return read


def add_settings(parser: argparse.ArgumentParser, config: Config, without: Sequence[str] = ()) -> None:
    """One option for each field that is not in `without`, its default that of `config`."""
    groups: dict[str, Any] = {}
    for name, kind, text, value in _fields(Config, config, ""):
        if name in without:
            continue
        section = name.rpartition(".")[0]
        if section not in groups:
            title = f"settings: {section}" if section else "settings"
            groups[section] = parser.add_argument_group(title, _summary(config, section))
        groups[section].add_argument(
            f"--{name}",
            dest=f"setting {name}",
            metavar=_metavar(kind),
            help=f"{text} Default: {_shown(value)}.".replace("%", "%%"),
        )


def overrides(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given, by path and of the right kind."""
    kinds = {name: kind for name, kind, _, _ in _fields(Config, Config(), "")}
    given = {
        key.removeprefix("setting "): text
        for key, text in vars(arguments).items()
        if key.startswith("setting ") and text is not None
    }
    return {name: _value(kinds[name], text, name) for name, text in given.items()}


def _fields(section: type[Section], values: Section, prefix: str) -> list[tuple[str, Any, str, Any]]:
    """Path, kind, docstring and value of every field, sections opened; `recipe` has an option of its own."""
    texts, found = _docstrings(section), []
    for name, kind in typing.get_type_hints(section).items():
        value = getattr(values, name)
        if isinstance(kind, type) and issubclass(kind, Section):
            found += _fields(kind, value, f"{prefix}{name}.")
        elif prefix + name != "recipe":
            found.append((prefix + name, kind, texts.get(name, ""), value))
    return found


def _docstrings(section: type) -> dict[str, str]:
    """The string beneath each field, which Python itself does not keep."""
    body = typing.cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(section))).body[0]).body
    return {
        field.target.id: text.value.value
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _summary(config: Config, section: str) -> str | None:
    return (type(getattr(config, section)).__doc__ or "").splitlines()[0] if section else None


def _metavar(kind: Any) -> str:
    if typing.get_origin(kind) is types.UnionType:
        return "|".join(_metavar(option) for option in typing.get_args(kind))
    if typing.get_origin(kind) is Literal:
        return "{" + ",".join(typing.get_args(kind)) + "}"
    if typing.get_origin(kind) is tuple:
        return f"{_metavar(typing.get_args(kind)[0])},..."
    return {int: "N", float: "X", bool: "true|false", type(None): "none"}.get(kind, "TEXT")


def _shown(value: Any) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value)) or "empty"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _value(kind: Any, text: str, name: str) -> Any:
    """The text as that kind of value; whether the value is allowed is for `Config` to say."""
    if typing.get_origin(kind) is types.UnionType:
        if text.lower() in _NOTHING:
            return None
        return _value(next(option for option in typing.get_args(kind) if option is not type(None)), text, name)
    if typing.get_origin(kind) is Literal:
        if text not in typing.get_args(kind):
            raise UsageError(
                got=f"--{name} {text}",
                expected=f"one of {', '.join(typing.get_args(kind))}",
                todo=suggestion(text, typing.get_args(kind), "choose one of them"),
            )
        return text
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        return tuple(_value(inner, part, name) for part in text.split(",") if part.strip())
    if kind is bool:
        if text.lower() not in _TRUE + _FALSE:
            raise UsageError(got=f"--{name} {text}", expected="true or false", todo=f"--{name} true, say")
        return text.lower() in _TRUE
    try:
        return kind(text)
    except ValueError:
        expected = {int: "a whole number", float: "a number"}[kind]
        raise UsageError(got=f"--{name} {text}", expected=expected, todo="see `temperflow run --help`") from None


def _without_prefix(message: str) -> str:
    """Argparse's own sentence, which reads after `got`."""
    required = "the following arguments are required: "
    if message.startswith(required):
        return f"no {message.removeprefix(required)}"
    return message.removeprefix("argument ")
