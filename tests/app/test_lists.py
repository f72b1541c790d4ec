"""`temperflow targets` and `temperflow recipes`: everything there is, for people and for programs."""

import json

import pytest

from temperflow import targets
from temperflow.app import recipes
from temperflow.app.cli import main


def shown(capsys, *words):
    assert main(words) == 0
    return capsys.readouterr().out


def test_every_target_is_listed_with_what_is_known_of_it(capsys):
    listed = json.loads(shown(capsys, "targets", "--json"))
    assert list(listed) == list(targets.names())
    for name, row in listed.items():
        target = targets.get(name)
        assert row["dim"] == target.dim
        assert row["exact_draws"] == (target.sample is not None)
        assert row["log_evidence"] == target.log_evidence
        assert row["modes"] == (None if target.modes is None else target.modes.centres.shape[0])
    table = shown(capsys, "targets")
    for name in listed:
        (line,) = [line for line in table.splitlines() if name in line.split()]
        assert str(listed[name]["dim"]) in line.split()


def test_every_recipe_is_listed_with_when_to_use_it(capsys):
    listed = json.loads(shown(capsys, "recipes", "--json"))
    assert listed == {name: recipes.summary(name) for name in recipes.names()}
    table = " ".join(shown(capsys, "recipes").split())
    for name, summary in listed.items():
        assert name in table
        assert summary.split(":")[0] in table


@pytest.mark.parametrize("command", ["targets", "recipes"])
def test_help_tells_the_command(capsys, command):
    assert f"temperflow {command}" in shown(capsys, command, "--help")
