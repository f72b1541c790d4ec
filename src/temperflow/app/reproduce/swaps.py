"""What tempering buys on a good path: one recipe with each proposal swapped in, and what needs no training.

The rows of a recipe are itself, and itself with another proposal, with and without path weights in its loss;
everything else stays. Beside them parallel tempering and tempered SMC, which spend as many energy calls as
the recipe's own training, its pilot included: from the paper's source, and, as `+wide`, from
N(0, R² I) with the R that the recipe's pilot measured, whose calls they then pay as well.
"""

from collections.abc import Sequence
from typing import Any

from temperflow.app import recipes
from temperflow.app.config import Config
from temperflow.app.reproduce.rows import Experiment, Row, chosen

TARGETS = ("gmm40-released", "gmm40")
KINDS = ("tempered", "underdamped", "overdamped", "transport")
CLASSICAL = ("parallel-tempering", "parallel-tempering+wide", "tempered-smc", "tempered-smc+wide")


def swaps(
    recipe: str,
    targets: Sequence[str] = (),
    names: Sequence[str] = (),
    overrides: dict[str, Any] | None = None,
) -> Experiment:
    """A recipe, its proposals, and the classical samplers, on each target.

    Args:
        recipe: its name.
        targets: some of `TARGETS`; all where there are none.
        names: of rows; all where there are none.
        overrides: further settings for all rows.

    >>> [row.name for row in swaps("ctds", ["gmm40"], ["ctds", "ctds+transport", "tempered-smc"]).rows]
    ['ctds', 'tempered-smc', 'ctds+transport']
    """
    plain = recipes.get(recipe).override(overrides or {})
    known = _rows(recipe, plain)
    wanted = chosen(names, known, "row") or known
    where = chosen(targets, TARGETS, "target") or TARGETS
    rows = [Row(name, target, *known[name]) for name in known if name in wanted for target in where]
    return Experiment(
        "ctds",
        f"The recipe {recipe}, its proposals swapped, and samplers without training",
        {"recipe": recipe},
        tuple(rows),
        (recipe, "parallel-tempering", "tempered-smc"),
        ((f"{recipe}+transport",), (f"{recipe}+overdamped",), (recipe,)),
        recipe,
    )


def _rows(recipe: str, plain: Config) -> dict[str, tuple[Config, str]]:
    """Settings and way of each row, most telling first: the recipe, what it competes with, its proposals."""
    own, weighted = plain.proposal.kind, plain.training.weighted
    proposals = {}
    for kind in sorted(KINDS, key=lambda kind: kind != own):
        for loss in (weighted, not weighted):
            changes = [kind] * (kind != own) + ["weighted" if loss else "unweighted"] * (loss != weighted)
            config = plain.override({"proposal.kind": kind, "training.weighted": loss})
            proposals["+".join([recipe, *changes])] = (config, "training")
    return {
        recipe: proposals.pop(recipe),
        **{name: (plain, name) for name in CLASSICAL},
        **proposals,
    }
