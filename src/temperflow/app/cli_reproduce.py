"""`temperflow reproduce`: its words, and what it does with them."""

import argparse
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from temperflow.app import recipes
from temperflow.app.cli_options import Parser, add_settings, overrides, whole
from temperflow.app.config import Config
from temperflow.app.errors import UsageError

if TYPE_CHECKING:
    from temperflow.app.reproduce.rows import Experiment

# The rows of both experiments differ in these, so nobody sets them for all rows.
_FIXED = ("proposal.kind", "training.weighted")


def add_experiments(parser: Parser, words: Sequence[str], recipe: Config | None) -> None:
    """The experiments that `reproduce` knows, each with options of its own.

    Args:
        parser: of `temperflow reproduce`.
        words: the whole command, for the record.
        recipe: whose settings `reproduce ctds` shows as defaults; None where another command was given.
    """
    experiments = parser.add_subparsers(title="experiments", metavar="EXPERIMENT", required=True, parser_class=Parser)

    def experiment(name: str, text: str, usage: str) -> Parser:
        added = experiments.add_parser(name, help=text, description=text)
        added.usage = f"temperflow reproduce {name} --out DIR {usage} [--seeds N] [--seconds N] [--SETTING VALUE ...]"
        added.set_defaults(experiment=name, parser=added, words=list(words))
        added.add_argument("--debug", action="store_true", help="show tracebacks")
        added.add_argument("--out", type=Path, required=True, metavar="DIR", help="where everything goes")
        return added

    paper = experiment(
        "paper",
        "the paper's table and figures",
        "[--variant text|released] [--recipes NAME,...] [--ablations NAME,...]",
    )
    paper.add_argument(
        "--variant",
        default="text",
        metavar="{text,released}",
        help="the paper as written, or its released experiment. Default: text.",
    )
    paper.add_argument("--recipes", type=_names, default=(), metavar="NAME,...", help="rows. Default: all seven.")
    paper.add_argument(
        "--ablations",
        type=_names,
        default=(),
        metavar="NAME,...",
        help="do the rows again with each change. Default: none.",
    )
    ctds = experiment(
        "ctds",
        "a recipe with each proposal swapped in, and what needs no training, at equal energy calls",
        "[--recipe NAME] [--targets NAME,...] [--rows NAME,...]",
    )
    ctds.add_argument("--recipe", default="ctds", metavar="NAME", help="where the settings come from. Default: ctds.")
    ctds.add_argument("--targets", type=_names, default=(), metavar="NAME,...", help="targets. Default: both.")
    ctds.add_argument("--rows", type=_names, default=(), metavar="NAME,...", help="rows. Default: all.")
    for each, config in ((paper, recipes.get("paper/ctds")), (ctds, recipe)):
        each.add_argument("--seeds", type=whole(1), default=5, metavar="N", help="training seeds a row. Default: 5.")
        each.add_argument("-n", type=whole(2), default=2500, metavar="N", help="draws a redraw. Default: 2500.")
        each.add_argument("--trials", type=whole(1), default=10, metavar="N", help="evaluation redraws. Default: 10.")
        each.add_argument(
            "--seconds", type=_seconds, metavar="X", help="end in order after this long; the same command goes on"
        )
        if config is not None:
            add_settings(each, config, without=_FIXED)
    first = next(iter(words[words.index("reproduce") + 1 :]), "-") if "reproduce" in words else "-"
    if not first.startswith("-") and first not in experiments.choices:
        parser.refuse_command(first, list(experiments.choices))


def reproduce(arguments: argparse.Namespace) -> int:
    """`temperflow reproduce`."""
    from temperflow.app import cli_tables
    from temperflow.app.reproduce.budget import Budget
    from temperflow.app.reproduce.experiment import carry_out
    from temperflow.app.reproduce.session import Session

    experiment = _experiment(arguments)
    session = Session(
        arguments.n,
        arguments.trials,
        Budget(arguments.seconds),
        shlex.join(["temperflow", *arguments.words]),
        cli_tables.note,
    )
    missing = carry_out(experiment, arguments.out, arguments.seeds, session)
    written = arguments.out / f"{experiment.name}.md"
    print(written.read_text(encoding="utf-8"))
    for line in missing:
        cli_tables.note(f"missing: {line}")
    if missing:
        cli_tables.note("the same command goes on from here")
    cli_tables.note(f"written: {written}, {written.with_suffix('.json').name} and figures")
    return 0


def _experiment(arguments: argparse.Namespace) -> "Experiment":
    from temperflow.app.reproduce.paper import paper
    from temperflow.app.reproduce.swaps import swaps

    try:
        changes = overrides(arguments)
        if arguments.experiment == "paper":
            return paper(arguments.variant, arguments.recipes, arguments.ablations, changes)
        return swaps(arguments.recipe, arguments.targets, arguments.rows, changes)
    except ValueError as error:
        todo = f"see `temperflow reproduce {arguments.experiment} --help`"
        raise UsageError(got=str(error), todo=todo) from error


def _names(text: str) -> tuple[str, ...]:
    """Words between commas."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}; expected names with commas between them")
    return found


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number of seconds") from None
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text}; expected a positive number of seconds")
    return value
