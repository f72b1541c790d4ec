"""Recipes: configurations with a name, and when to use which."""

import difflib
from dataclasses import replace

from temperflow.app.config import (
    Config,
    NetworkConfig,
    PathConfig,
    ProposalConfig,
    SamplingConfig,
    TemperatureConfig,
    TrainingConfig,
)


def get(name: str) -> Config:
    """The recipe of that name."""
    if name not in _RECIPES:
        nearest = difflib.get_close_matches(name, _RECIPES, n=1, cutoff=0.4)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else f": {', '.join(_RECIPES)}"
        raise ValueError(f"there is no recipe {name!r}{hint}")
    return replace(_RECIPES[name], recipe=name)


def names() -> tuple[str, ...]:
    """Every name that `get` knows."""
    return tuple(_RECIPES)


def summary(name: str) -> str:
    """One sentence on when to use it."""
    return _SUMMARIES[name]


# The paper's text and appendix, with the table where the two disagree (MATH.md section 7, 10-13). Every number
# it states is here, also where it is a default: defaults move on, the paper does not.
_PAPER = Config(
    path=PathConfig(schedule="identity", widen=False, learned=True, learned_features=True, scale=1.0, fading=1.0),
    temperature=TemperatureConfig(hottest=0.2, cold_edge=0.25, hot_edge=1.9, edge=2.0, sharpness=10.0, bias_rate=0.0),
    proposal=ProposalConfig(
        integrator="euler",
        scale=50.0,
        damping=2.0,
        xi_scale=5.0,
        xi_damping=2.0,
        diffusion=50.0,
        adjusted_moves=0,
        normaliser="paper",
    ),
    network=NetworkConfig(
        width=256,
        depth=3,
        free_energy_width=256,
        position_frequencies=100,
        position_spread=0.1,
        position_coarsest=None,
        time_frequencies=20,
        time_spread=5.0,
        temperature_frequencies=20,
        temperature_spread=1.0,
        raw_inputs=False,
        carried=False,
        output_scale=1.0,
    ),
    training=TrainingConfig(
        epochs=1250,
        iterations=100,
        batch=6250,
        walkers=2500,
        followers=0,
        steps=250,
        memory=1,
        resample_below=0.0,
        optimiser="adam",
        learning_rate=1e-3,
        decay="paper",
        clip=None,
        weight_limit=None,
        robust=None,
        averaging=0.0,
        # Nine horizons and ten durations: the tenth belongs to the whole path.
        horizons=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        horizon_iterations=(1000, 1000, 1000, 1000, 2000, 2000, 2000, 3000, 3000, 3000),
    ),
    sampling=SamplingConfig(flow="euler", flow_steps=250, anneal_steps=250),
)


def _paper(kind: str, weighted: bool) -> Config:
    return _PAPER.override({"proposal.kind": kind, "training.weighted": weighted})


_RECIPES: dict[str, Config] = {
    "quick": Config(),
    "ctds": Config(
        network=NetworkConfig(width=256),
        training=TrainingConfig(
            epochs=300, iterations=100, batch=8192, walkers=1536, followers=512, learning_rate=7e-3
        ),
    ),
    "paper/baseline": _paper("transport", False),
    "paper/nets-od": _paper("overdamped", False),
    "paper/nets-od-jarzynski": _paper("overdamped", True),
    "paper/nets-ud": _paper("underdamped", False),
    "paper/nets-ud-jarzynski": _paper("underdamped", True),
    "paper/ctds": _paper("tempered", False),
    "paper/ctds-jarzynski": _paper("tempered", True),
}

_SUMMARIES: dict[str, str] = {
    "quick": "two CPU cores, two minutes: a first look",
    "ctds": "a GPU, one minute: the default",
    "paper/baseline": "the paper's reference row: control alone",
    "paper/nets-od": "the paper's overdamped NETS row without weights",
    "paper/nets-od-jarzynski": "the same with Jarzynski weights in the loss",
    "paper/nets-ud": "the paper's underdamped NETS row without weights",
    "paper/nets-ud-jarzynski": "the same with Jarzynski weights in the loss",
    "paper/ctds": "the paper's continuously tempered row without weights",
    "paper/ctds-jarzynski": "the same with Jarzynski weights in the loss",
}
