"""The smallest experiments of `temperflow reproduce`, and sessions of them that end early."""

import itertools

import pytest

from temperflow.app.reproduce import experiment, training
from temperflow.app.reproduce.budget import Budget
from temperflow.app.reproduce.ensemble import Ensemble
from temperflow.app.reproduce.paper import paper
from temperflow.app.reproduce.session import Session
from temperflow.app.reproduce.swaps import swaps

SEEDS, N, TRIALS, EPOCHS = 2, 16, 2, 6

SMALL = {
    "network.width": 8,
    "network.depth": 1,
    "network.free_energy_width": 8,
    "network.position_frequencies": 4,
    "network.time_frequencies": 2,
    "network.temperature_frequencies": 2,
    "training.epochs": EPOCHS,
    "training.iterations": 3,
    "training.walkers": 16,
    "training.steps": 4,
    "training.batch": 16,
    "sampling.flow": "euler",
    "sampling.flow_steps": 4,
}
# The whole path from the first epoch on, in so few steps that the paper's own rates would blow it up.
PAPER = SMALL | {"training.horizons": (), "training.horizon_iterations": (), "proposal.scale": 2.0}
# No pilot run, and a buffer of two rollouts, which a checkpoint has to hold; the paper's holds one.
SWAPS = SMALL | {
    "path.schedule": "exponential",
    "path.scale": 40.0,
    "path.fading": 1.0,
    "training.memory": 2,
}
# Samplers without training may spend what this training would: enough for their draws.
CLASSICAL = SWAPS | {"training.epochs": 1200}


def papers():
    """One row of the paper's."""
    return paper("text", ["ctds"], (), PAPER)


def swapped():
    """One row that trains, of a recipe on a good path: with the proposal that compiles fastest."""
    return swaps("quick", ["gmm40"], ["quick+transport"], SWAPS)


def untrained():
    """Two rows that train nothing."""
    return swaps("quick", ["gmm40"], ["parallel-tempering", "tempered-smc"], CLASSICAL)


def words(name, place, *more, settings=None):
    """The command that makes the first of them, or another experiment with other settings."""
    settings = PAPER if settings is None else settings
    shown = {key: "" if value == () else value for key, value in settings.items()}
    return [
        *("reproduce", name, "--out", str(place), "--seeds", str(SEEDS), "-n", str(N), "--trials", str(TRIALS)),
        *more,
        *(f"--{key}={value}" for key, value in shown.items()),
    ]


def session(looks=None):
    """One sitting; with a number of looks at the clock, over at the last of them."""
    budget = Budget(None) if looks is None else Budget(float(looks), itertools.count(0.0).__next__)
    return Session(N, TRIALS, budget, "a command")


def carried_out(made, place):
    """Without an interruption."""
    assert experiment.carry_out(made, place, SEEDS, session()) == []
    return place


def interrupted(made, place):
    """Every session looks at the clock after each epoch, and soon has no more time; what each left open, in order."""
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "LOOK_EVERY", 0.0)
        for _ in range(30):
            # A look for each row that may be gone on with, one for what is done then, and one to see that time is up.
            told.append(experiment.carry_out(made, place, SEEDS, session(looks=len(made.rows) + 2)))
            if not told[-1]:
                return told
    raise AssertionError(f"not done after thirty sessions: {told[-3:]}")


def compiled_once(patch):
    """Let sessions share their programs: a session compiles its own, which is most of what it does here."""
    programs = {}

    def kept(config, target, survey, seeds):
        known = (config, target.name, survey, tuple(seeds))
        if known not in programs:
            programs[known] = Ensemble(config, target, survey, seeds)
        return programs[known]

    patch.setattr(training, "Ensemble", kept)
