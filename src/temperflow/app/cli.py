"""The command `temperflow`: words in, a command carried out, an exit status."""

import argparse
import itertools
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from temperflow.app import recipes
from temperflow.app.cli_options import Parser, add_settings, among, whole
from temperflow.app.cli_reproduce import add_experiments
from temperflow.app.errors import TemperflowError, UsageError

# Commands import what they need when they are carried out: `--help` must not wait for JAX.
_ABOUT = """Trains a sampler for an unnormalised log density and draws from it.

  temperflow run gmm40 --recipe quick --out runs/demo
  temperflow run my_model.py:log_density --dim 8
  temperflow sample runs/demo -n 10000 --out draws.nc"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command.

    Args:
        arguments: the words after `temperflow`; those of this process if left out.

    Returns:
        0, or 2 for what the user can put right, 3 for numerical failure, 130 and 143 for signals,
        1 for what nobody foresaw.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _carry_out(words)
    except SystemExit as done:  # argparse leaves this way after --help
        return int(done.code or 0)
    except KeyboardInterrupt:
        _say("stopped; no unfinished file was left behind")
        return 130
    except BrokenPipeError:
        # Whoever was reading has gone; nothing may be written to them at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        if "--debug" in words:
            traceback.print_exc()
        failure = error if isinstance(error, TemperflowError) else _explained(error)
        _say(str(failure))
        return failure.exit_status


def _carry_out(words: Sequence[str]) -> int:
    named = next((word for word in words if not word.startswith("-")), None)
    parser = _parser(named, words)
    known, unknown = parser.parse_known_args(list(words))
    if unknown:
        subparser = getattr(known, "parser", parser)
        subparser.refuse_unknown(unknown)
    from temperflow.app.cli_commands import COMMANDS, require_devices

    require_devices()
    return COMMANDS[known.command](known)


def _parser(named: str | None, words: Sequence[str]) -> Parser:
    parser = Parser("temperflow", description=_ABOUT)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, text: str) -> Parser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(command=name, parser=added)
        added.add_argument("--debug", action="store_true", help="show tracebacks")
        return added

    run = command("run", "train a sampler, or go on training it, and say whether to trust it")
    run.usage = "temperflow run TARGET [--recipe NAME] [--out DIR] [--dim N] [--seed N] [--SETTING VALUE ...]"
    run.add_argument("target", metavar="TARGET", help="a name that `temperflow targets` lists, or file.py:function")
    run.add_argument("--recipe", default="ctds", metavar="NAME", help="where the settings come from. Default: ctds.")
    run.add_argument("--out", type=Path, metavar="DIR", help="the run directory. Default: runs/TARGET-RECIPE.")
    run.add_argument(
        "--dim", type=whole(1), metavar="N", help="dimension, for a function and for families that leave it open"
    )
    _add_seed(run, "of all randomness")
    run.add_argument("--compare", action="store_true", help="also run the classical samplers on the same target")
    _add_afterwards(run)
    settings = _recipe_in(words)
    if named == "run":
        add_settings(run, settings)

    resume = command("resume", "go on with an interrupted run")
    _add_directory(resume)
    resume.add_argument("--compare", action="store_true", help="also run the classical samplers on the same target")
    _add_afterwards(resume)

    sample = command("sample", "draw from a trained sampler into a file")
    _add_directory(sample)
    sample.add_argument("-n", type=whole(1), required=True, metavar="N", help="number of draws")
    sample.add_argument("--out", type=Path, required=True, metavar="FILE", help="ends in .nc, .npz, .csv or .parquet")
    sample.add_argument(
        "--method",
        type=among("flow", "anneal", "temper"),
        default="flow",
        metavar="{flow,anneal,temper}",
        help="the control as a map; with Langevin moves and resampling; the same with temperature. Default: flow.",
    )
    _add_seed(sample, "of the draws")

    evaluate = command("evaluate", "measure a trained sampler against what is known of its target")
    _add_directory(evaluate)
    _add_json(evaluate)
    evaluate.add_argument("-n", type=whole(2), default=2500, metavar="N", help="draws a trial. Default: 2500.")
    evaluate.add_argument("--trials", type=whole(1), default=10, metavar="N", help="how many. Default: 10.")
    _add_seed(evaluate, "of the draws")

    compare = command("compare", "run the classical samplers on the same target from the same source")
    _add_directory(compare)
    _add_json(compare)
    compare.add_argument("-n", type=whole(2), default=2500, metavar="N", help="draws of each. Default: 2500.")
    _add_seed(compare, "of the draws")

    _add_directory(command("report", "write the report again"))
    experiments = command("reproduce", "make the tables and figures of an experiment again, seeds and all")
    add_experiments(experiments, words, settings if named == "reproduce" else None)
    _add_json(command("targets", "list the targets that come with the package"))
    _add_json(command("recipes", "list the recipes and when to use which"))
    _add_json(command("doctor", "check versions, devices, precision and the exactness of weights on this machine"))
    if named is not None and named not in commands.choices:
        parser.refuse_command(named, list(commands.choices))
    return parser


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="of a run")


def _add_seed(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument("--seed", type=whole(0, 2**31), default=0, metavar="N", help=f"{what}. Default: 0.")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_afterwards(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trials", type=whole(1), default=3, metavar="N", help="of the evaluation at the end. Default: 3."
    )
    parser.add_argument("--no-report", action="store_true", help="leave report.html out")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--tensorboard", action="store_true", help="write scalars for TensorBoard as well")


def _recipe_in(words: Sequence[str]) -> Any:
    """The recipe named among the words, whose values are then the defaults that `--help` shows."""
    name = "ctds"
    for word, following in itertools.zip_longest(words, words[1:], fillvalue=""):
        if word == "--recipe":
            name = following
        elif word.startswith("--recipe="):
            name = word.partition("=")[2]
    try:
        return recipes.get(name)
    except ValueError as error:
        raise UsageError(got=str(error), todo="see `temperflow recipes`") from error


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"temperflow {version('temperflow')}")
        parser.exit()


def _explained(error: Exception) -> TemperflowError:
    """What was not foreseen, as a message; running out of memory has a remedy."""
    text = str(error).strip().splitlines()
    told = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in told:
        return UsageError(
            got="no more memory",
            expected="enough for a rollout and a batch",
            todo="lower training.walkers, training.steps, training.memory or training.batch",
        )
    return TemperflowError(
        got=told, expected="no such thing", todo="add --debug for the traceback, and report it with the command"
    )


def _say(text: str) -> None:
    print(f"temperflow: {text}", file=sys.stderr)
