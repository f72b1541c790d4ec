"""Which rows there are: the paper's proposals, its two experiments, and one change at a time.

The paper's text and its released experiment differ (MATH.md section 7). The recipes `paper/...` are the
text, every number of it in their settings; `released` says what its experiment has otherwise:

* the target and its source: `gmm40-released`, N(0, 25 I);
* 50, 10 and 10 Fourier frequencies, so 100, 20 and 20 features with sine and cosine;
* log weights cut off at 4.

One more difference is an ablation, `raw-potential`: in the released experiment the learned potential of
the CTDS rows sees (x, t) as they are and that of the others sees Fourier features, so that rows differ in
more than their proposal. Here it has the same inputs in every row unless that is asked for.

Not carried over, and why:

* initial momenta of twice the stated variance: with γε = 100 they are forgotten after three of 250 steps;
* the best checkpoint by W2 to true samples: no metric that needs truth selects anything here;
* a curriculum that shortens the rollout: here its 250 steps share whatever horizon there is, which
  changes the first 19,000 of 125,000 iterations to finer steps;
* time steps at the same places in every rollout: here the grid is shifted at random from rollout to rollout;
* the plus sign of the confinement and the other slips of the text: they cannot be simulated.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from temperflow.app import recipes
from temperflow.app.config import Config
from temperflow.app.errors import UsageError


@dataclass(frozen=True)
class Row:
    """One way to train on one target.

    Args:
        name: of the recipe, and of what was changed in it after a plus sign.
        target: a name that `targets.get` knows.
        config: all settings.
    """

    name: str
    target: str
    config: Config


@dataclass(frozen=True)
class Published:
    """The paper's figures of a row, each with its spread over evaluation redraws of one training run."""

    label: str
    w2: tuple[float, float]
    elbo: tuple[float, float]
    eubo: tuple[float, float]


# In the order of the paper's table.
PUBLISHED: dict[str, Published] = {
    "paper/baseline": Published("Baseline", (23.90, 0.32), (-2.11, 0.00), (23.78, 0.34)),
    "paper/nets-od": Published("NETS (OD) without weights", (22.61, 0.16), (-1.65, 0.00), (22.27, 0.23)),
    "paper/nets-od-jarzynski": Published("NETS (OD)", (20.11, 0.23), (-1.15, 0.08), (19.77, 0.22)),
    "paper/nets-ud": Published("NETS (UD) without weights", (23.47, 0.31), (-1.98, 0.00), (22.00, 0.32)),
    "paper/nets-ud-jarzynski": Published("NETS (UD)", (21.30, 0.23), (-1.35, 0.02), (20.95, 0.26)),
    "paper/ctds": Published("CTDS without weights", (12.87, 0.20), (-0.24, 0.01), (19.91, 0.45)),
    "paper/ctds-jarzynski": Published("CTDS", (14.70, 0.28), (-0.29, 0.01), (15.35, 0.34)),
}

# The rows that claims and figures rest on come first: a session may not last for all of them.
BY_VALUE = (
    "paper/ctds",
    "paper/baseline",
    "paper/ctds-jarzynski",
    "paper/nets-od-jarzynski",
    "paper/nets-ud-jarzynski",
    "paper/nets-od",
    "paper/nets-ud",
)

VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "text": ("gmm40", {}),
    "released": (
        "gmm40-released",
        {
            "network.position_frequencies": 50,
            "network.time_frequencies": 10,
            "network.temperature_frequencies": 10,
            "training.weight_limit": 4.0,
        },
    ),
}

# Each suspected cause of a difference, alone.
ABLATIONS: dict[str, dict[str, object]] = {
    "raw-potential": {"path.learned_features": False},
    "exact-normaliser": {"proposal.normaliser": "exact"},
    "splitting": {"proposal.integrator": "splitting"},
    "linear-path": {"path.learned": False},
    "unlimited-weights": {"training.weight_limit": None},
    "clipped": {"training.clip": 1.0},
}


def paper_rows(
    variant: str,
    names: Sequence[str] = (),
    ablations: Sequence[str] = (),
    overrides: dict[str, object] | None = None,
) -> list[Row]:
    """The rows of the paper's table, most telling first.

    Args:
        variant: `text` or `released`.
        names: of recipes, with or without `paper/`; all where there are none.
        ablations: each adds every chosen row again with that change, where it is one.
        overrides: further settings for all rows.

    >>> [row.name for row in paper_rows("text", ["ctds"], ["linear-path", "unlimited-weights"])]
    ['paper/ctds', 'paper/ctds+linear-path']
    """
    target, changes = VARIANTS[_known(variant, VARIANTS, "variant")]
    wanted = {_known(name if "/" in name else f"paper/{name}", PUBLISHED, "row") for name in names or PUBLISHED}
    plain = [
        Row(name, target, recipes.get(name).override({**changes, **(overrides or {})}))
        for name in BY_VALUE
        if name in wanted
    ]
    changed = [
        Row(f"{row.name}+{ablation}", target, row.config.override(ABLATIONS[_known(ablation, ABLATIONS, "ablation")]))
        for ablation in ablations
        for row in plain
    ]
    before = {row.name: row.config for row in plain}
    return plain + [row for row in changed if row.config != before[row.name.partition("+")[0]]]


def _known(name: str, names: dict, kind: str) -> str:
    if name not in names:
        raise UsageError(got=f"the {kind} {name!r}", expected=f"one of {', '.join(names)}", todo="choose one of them")
    return name
