"""What an experiment came to, as data: one record a row and seed, and what the seeds of a row say together.

`paper.json`, and whatever else is written by this machinery, holds

* `format`, `experiment`, what decides it (`variant` or `recipe`), `n` and `trials` of the evaluation;
* `missing`: what had been asked for and was not there yet, a sentence each; empty when all is done;
* `published`: a paper's figures by row, value and spread;
* `records`: a list, one a row and seed, whose fields are below;
* `rows`: for each row `row`, `target`, `seeds`, `diverged` (how many), for each figure its `mean` over the
  seeds that did not diverge, `over_seeds`, their standard deviation, and `over_redraws`, the root mean
  square over seeds of the standard deviation between evaluation redraws; `config`, all its settings, and `changed`,
  those that differ from its recipe, with the recipe's value and its own.

A record has every one of these fields, null where there is no such thing:

* `row`, `recipe`, `ablation` (what was changed in it), `target`, `seed`;
* `status`: `trained`, or `diverged` if the last epoch was in trouble; `trouble` then says since when and of what
  kind (null for a seed that never was);
* `w2`, `w2_spread`, `w2_floor`, `w2_floor_spread`: mean and standard deviation over the redraws;
* `elbo`, `eubo`, with `_error` (standard error, all redraws pooled) and `_spread` (standard deviation over
  redraws). They are of the exact density of the map that draws. Null is infinite: the map is folded, or does
  not close, somewhere, so that no bound exists. `weightless` is the share of draws and `unknown_density` that of
  exact draws where that is so; `elbo_where_known`, `eubo_where_known` are means over the rest, and not bounds.
  Samplers that draw from no map have none of these;
* `ess`, `ess_forward`, with `_error`: effective share of the weights at draws of the flow and at exact draws;
* `modes`, `modes_worst`, `mode_tv`, `mode_tv_spread`, `mode_tv_floor`, `entropic`: coverage;
* `log_evidence` with `_error` and `_known`, `free_energy` (learned), `khat`;
* `residual`, `loss`, `dropped`: of the last epoch; `dropped` is the share of locations without finite numbers;
* `energy_calls`: of the training of this seed, pilot included, or of the whole run of a sampler that trains nothing;
  `evaluation_calls`: of the draws;
* `train_seconds`: wall time of the program, compilation included, and `seeds_together`, how many seeds
  it trained: the time of one seed alone is not known from it, and is less;
* `epochs`, `device`, `commit` (`+changes` where files differed from it), `versions`, `command`: of the training, or of
  its last session; `n` and `trials`: of the evaluation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from temperflow.app import recipes
from temperflow.app.reproduce.batch import MADE, Batch, figures_file
from temperflow.app.reproduce.rows import Experiment, Row, differences

FORMAT = 1
# Figures of a row's summary, each with the field that holds its spread over redraws.
SUMMARISED = {
    "w2": "w2_spread",
    "w2_floor": "w2_floor_spread",
    "elbo": "elbo_spread",
    "eubo": "eubo_spread",
    "elbo_where_known": None,
    "eubo_where_known": None,
    "weightless": None,
    "unknown_density": None,
    "ess": None,
    "ess_forward": None,
    "modes": None,
    "mode_tv": "mode_tv_spread",
    "mode_tv_floor": None,
    "log_evidence": None,
    "residual": None,
    "dropped": None,
    "train_seconds": None,
    "energy_calls": None,
}
FIELDS = (
    "row", "recipe", "ablation", "target", "seed", "status", "trouble",
    "w2", "w2_spread", "w2_floor", "w2_floor_spread",
    "elbo", "elbo_error", "elbo_spread", "elbo_where_known", "weightless",
    "eubo", "eubo_error", "eubo_spread", "eubo_where_known", "unknown_density",
    "ess", "ess_error", "ess_forward", "ess_forward_error",
    "modes", "modes_worst", "mode_tv", "mode_tv_spread", "mode_tv_floor", "entropic",
    "log_evidence", "log_evidence_error", "log_evidence_known", "free_energy", "khat",
    "residual", "loss", "dropped", "energy_calls", "evaluation_calls", "train_seconds", "seeds_together",
    "epochs", "device", "commit", "versions", "command", "n", "trials",
)  # fmt: skip


def document(
    experiment: Experiment, there: Sequence[Batch], missing: Sequence[str], n: int, trials: int
) -> dict[str, Any]:
    """All that there is to say, as far as it is known.

    Args:
        experiment: what was asked for.
        there: every batch of it, in the order to list them.
        missing: what is not there yet.
        n: draws an evaluation redraw.
        trials: redraws.
    """
    found = [record for batch in there for record in records(batch)]
    rows = {(batch.row.name, batch.row.target): batch.row for batch in there}
    return {
        "format": FORMAT,
        "experiment": experiment.name,
        **experiment.about,
        "n": n,
        "trials": trials,
        "missing": list(missing),
        "published": {
            name: {figure: list(getattr(paper, figure)) for figure in ("w2", "elbo", "eubo")}
            for name, paper in experiment.published.items()
        },
        "rows": [summary | _settings(rows[summary["row"], summary["target"]]) for summary in summaries(found)],
        "records": found,
    }


def records(batch: Batch) -> list[dict[str, Any]]:
    """One record for each seed of a batch that has been measured."""
    seeds = [seed for seed in batch.seeds if batch.measured(seed)]
    told = batch.read_json(MADE) if seeds else {}
    found = []
    for seed in seeds:
        about = {
            "row": batch.row.name,
            "recipe": batch.row.base,
            "ablation": batch.row.change,
            "target": batch.row.target,
            "seed": seed,
            **{name: told[name] for name in ("device", "commit", "versions", "command")},
        }
        known = about | told["seeds"][str(seed)] | (batch.read_json(figures_file(seed))["figures"] or {})
        found.append({name: known.get(name) for name in FIELDS})
    return found


def summaries(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the seeds of each row say together, rows in the order they come in.

    >>> twice = [{"row": "a", "target": "t", "seed": s, "status": "trained", "w2": w, "w2_spread": 0.5}
    ...          for s, w in ((0, 3.0), (1, 5.0))]
    >>> row = summaries(twice)[0]
    >>> row["w2"]["mean"], round(row["w2"]["over_seeds"], 3), row["w2"]["over_redraws"]
    (4.0, 1.414, 0.5)
    """
    rows = dict.fromkeys((record["row"], record["target"]) for record in found)
    return [_summary([r for r in found if (r["row"], r["target"]) == row]) for row in rows]


def _summary(mine: list[dict[str, Any]]) -> dict[str, Any]:
    sound = [record for record in mine if record["status"] == "trained"]
    figures = {name: _together(sound, name, spread) for name, spread in SUMMARISED.items()}
    return {
        "row": mine[0]["row"],
        "target": mine[0]["target"],
        "seeds": [record["seed"] for record in mine],
        "diverged": len(mine) - len(sound),
        "modes_worst": min((r["modes_worst"] for r in sound if r.get("modes_worst") is not None), default=None),
        **figures,
    }


def _together(sound: list[dict[str, Any]], name: str, spread: str | None) -> dict[str, float | None] | None:
    """Mean and both spreads; None where a seed has no such figure or an infinite one."""
    values = _known(sound, name)
    if values is None:
        return None
    redraws = _known(sound, spread) if spread else None
    return {
        "mean": float(np.mean(values)),
        "over_seeds": float(np.std(values, ddof=1)) if len(values) > 1 else None,
        "over_redraws": None if redraws is None else float(np.sqrt(np.mean(np.square(redraws)))),
    }


def _known(sound: list[dict[str, Any]], name: str) -> list[float | int] | None:
    """The figure of every seed; None where there are no seeds, or one without it."""
    values = [record[name] for record in sound if record.get(name) is not None]
    return values if values and len(values) == len(sound) else None


def _settings(row: Row) -> dict[str, Any]:
    recipe = recipes.get(row.config.recipe)
    changed = {name: list(values) for name, values in differences(recipe, row.config).items()}
    return {"config": row.config.to_dict(), "changed": changed}
