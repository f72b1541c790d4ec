"""Help tells every setting with its meaning and its value, at once."""

import argparse
import subprocess
import sys
import typing

import pytest

from temperflow.app import cli, recipes
from temperflow.app.cli_options import _docstrings, _shown
from temperflow.app.config import Config, Section


def fields(section, values, prefix=""):
    """Path, docstring and value of every field, by Python's own means."""
    for name, kind in typing.get_type_hints(type(values)).items():
        value = getattr(values, name)
        if isinstance(kind, type) and issubclass(kind, Section):
            yield from fields(kind, value, f"{prefix}{name}.")
        elif prefix + name != "recipe":  # which has an option of its own
            yield prefix + name, _docstrings(type(values)).get(name), value


def told(words, capsys):
    assert cli.main(words) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("recipe", recipes.names())
def test_every_setting_with_its_meaning_and_its_value(recipe, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "500")
    text = told(["run", "--recipe", recipe, "--help"], capsys)
    found = list(fields(Config, recipes.get(recipe)))
    assert len(found) > 60
    for name, meaning, value in found:
        assert meaning, f"{name} has no docstring"
        assert f"--{name} " in text
        assert f"{' '.join(meaning.split())} Default: {_shown(value)}." in text, name


def test_a_setting_left_out_would_be_noticed(capsys, monkeypatch):
    real = cli.add_settings
    monkeypatch.setattr(cli, "add_settings", lambda parser, config: real(parser, config, without=("training.batch",)))
    with pytest.raises(AssertionError):
        test_every_setting_with_its_meaning_and_its_value("quick", capsys, monkeypatch)


def commands():
    parser = cli._parser(None, [])
    (group,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(group.choices)


@pytest.mark.parametrize("name", commands())
def test_every_option_of_every_command_says_what_it_is_for(name, capsys):
    for action in commands()[name]._actions:
        assert action.help or action.metavar == "EXPERIMENT", action.option_strings
    assert told([name, "--help"], capsys).startswith(f"usage: temperflow {name}")


def test_every_command_can_be_carried_out():
    from temperflow.app.cli_commands import COMMANDS

    assert set(commands()) == set(COMMANDS)


def test_help_does_not_wait_for_jax():
    program = (
        "import sys; from temperflow.app.cli import main; main(['run', '--help']);"
        "sys.exit(any(name in sys.modules for name in ('jax', 'numpy', 'matplotlib')))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "--training.epochs" in ended.stdout
