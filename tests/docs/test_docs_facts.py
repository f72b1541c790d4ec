"""What the documentation states about commands, recipes, thresholds and files is what the package has."""

import re
import shlex
import typing

import jax
import pages
import pytest

from temperflow.app import cli, recipes, run_directory, verdict
from temperflow.app.build import Survey, build
from temperflow.app.config import Config
from temperflow.targets import Target


def commands(page):
    """Every line of a shell block that calls the program, without comments and pipes."""
    for block in pages.blocks(page, "bash"):
        for line in block.code.splitlines():
            words = shlex.split(line.partition("#")[0].partition("|")[0])
            if words and words[0] == "temperflow":
                yield words[1:]


ALL_COMMANDS = [(page, words) for page in pages.PAGES for words in commands(page)]


@pytest.mark.parametrize(
    ("page", "words"), ALL_COMMANDS, ids=lambda part: part if isinstance(part, str) else "-".join(part)
)
def test_every_command_shown_is_understood(page, words):
    parser = cli._parser(words[0], words)
    known, unknown = parser.parse_known_args(words)
    assert not unknown
    assert known.command == words[0]


def test_a_wrong_option_would_be_noticed():
    words = ["run", "gmm40", "--training.epoch", "3"]
    assert cli._parser("run", words).parse_known_args(words)[1]


@pytest.mark.parametrize("page", pages.PAGES)
def test_settings_named_in_the_text_exist(page):
    groups = "path|temperature|proposal|network|training|sampling"
    for name in re.findall(rf"`(?:--)?((?:{groups})\.\w+)[ `]", pages.text(page)):
        # Refused with a ValueError where there is no such setting.
        Config().override({name: _value(name)})


def _value(name):
    value = Config()
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_a_wrong_setting_would_be_noticed():
    with pytest.raises(AttributeError):
        _value("training.epoch")


def spent(config):
    """Updates, batch and energy calls of the training, as its own trainer counts them."""
    target = Target(lambda x: -jax.numpy.sum(x**2), dim=2)
    survey = Survey(scale=10.0, levels=(0.0, 0.01, 0.1, 1.0), energy_calls=0)
    trainer = build(config, target, survey).trainer
    training = config.training
    return training.epochs * training.iterations, training.batch, training.epochs * trainer.calls_per_epoch


@pytest.mark.parametrize("page", ["README.md", "index.md"])
def test_the_table_of_recipes_is_the_recipes(page):
    stated = {name: row for row in pages.rows(page) for name in re.findall(r"`([\w/-]+)`", row[0])}
    assert set(recipes.names()) <= set(stated)
    for name in ("quick", "ctds", "paper/baseline"):
        _, when, updates, calls, network = stated[name]
        config = recipes.get(name)
        count, batch, energy = spent(config)
        assert when == recipes.summary(name)
        assert updates == f"{count:,} of {batch:,}"
        assert calls == f"{energy / 1e6:.3g} million"
        assert network == f"{config.network.depth} × {config.network.width}"
    # The other rows of the paper are said to be as the first.
    assert len({spent(recipes.get(name)) for name in recipes.names() if name.startswith("paper/")}) == 1


def findings():
    """Every finding there can be: of parallel tempering heard and not heard, of a domain that went on growing."""
    made = {verdict.LogZ: verdict.LogZ(0.0, 0.01), float: 0.5, int: 0, bool: False, float | None: 0.5}
    made |= {verdict.LogZ | None: made[verdict.LogZ], tuple[verdict.LogZ, verdict.LogZ]: (made[verdict.LogZ],) * 2}
    fields = {name: made.get(kind, ()) for name, kind in typing.get_type_hints(verdict.Evidence).items()}
    for trips in (0, 10**6):
        judged = verdict.weigh(verdict.Evidence(**{**fields, "round_trips": trips}))
        yield from (finding.name for finding in judged.findings)


def thresholds():
    """By finding: what its row of the table must say."""
    evidence = (verdict.EVIDENCE_CHECK, verdict.EVIDENCE_BAD)
    missed = (verdict.MISSED_CHECK, verdict.MISSED_BAD)
    gap = (verdict.GAP_CHECK, verdict.GAP_BAD)
    return {
        "flow ESS": (verdict.ESS_CHECK, verdict.ESS_BAD),
        "flow k-hat": (verdict.KHAT_CHECK, verdict.KHAT_BAD),
        "flow against its own weights": gap,
        "coverage": missed,
        "coverage, parallel tempering": missed,
        "flow against the reference": gap,
        "log Z, flow and wide tempered run": evidence,
        "log Z, flow and parallel tempering": evidence,
        "log Z, flow and annealing": evidence,
        "log Z, flow and tempered annealing": evidence,
        "log Z, two halves": evidence,
        "log Z, flow and -F(1, 1)": (verdict.BELIEF_CHECK, verdict.BELIEF_BAD),
        "residual": (verdict.DRIFT_CHECK, verdict.DRIFT_BAD),
        "residual, hot": (verdict.DRIFT_CHECK, verdict.DRIFT_BAD),
        "cold particles": (verdict.COLD_CHECK, verdict.COLD_BAD),
        "finite draws": (verdict.BROKEN_CHECK, verdict.BROKEN_BAD),
        "finite walks": (verdict.BROKEN_CHECK, verdict.BROKEN_BAD),
    }


def test_every_finding_has_its_row_with_its_thresholds():
    stated = {row[0]: row[2:4] for row in pages.rows("reading-the-report.md") if len(row) == 5}
    assert set(findings()) == set(stated) - {"finding", "---"}
    for name, (check, bad) in thresholds().items():
        assert [float(cell.removeprefix("≥ ")) for cell in stated[name]] == [check, bad], name


def test_every_picture_shown_is_there_and_small():
    shown = {
        path.parent / link
        for path in pages.PAGES.values()
        for link in re.findall(r"!\[[^]]*\]\(([^)]+)\)", path.read_text())
    }
    assert shown
    assert all(picture.stat().st_size < 300_000 for picture in shown)


def test_every_file_of_a_run_is_listed():
    listed = {name for row in pages.rows("getting-started.md") for name in re.findall(r"`([\w.]+)/?`", row[0])}
    constants = ("CONFIG", "SURVEY", "SAMPLER", "EVENTS", "METRICS", "VERDICT", "REPORT", "MANIFEST")
    assert {getattr(run_directory, name) for name in constants} <= listed
