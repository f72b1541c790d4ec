"""What an experiment came to, as data: one record a row and seed, and what the seeds of a row say together.

`paper.json`, and whatever else is written by this machinery, holds

* `format`, `variant` and `published`: the paper's figures by row, value and spread;
* `records`: a list, one a row and seed, whose fields are below;
* `rows`: for each row `row`, `target`, `seeds`, `diverged` (how many), and for each figure its `mean` over the
  seeds that did not diverge, `over_seeds`, their standard deviation, and `over_redraws`, the root mean
  square over seeds of the standard deviation between evaluation redraws.

A record has

* `row`, `recipe`, `ablation` (null for none), `target`, `seed`;
* `status`: `trained`, or `diverged` if the last epoch was in trouble; `trouble` then says since when and of what
  kind (null for a seed that never was);
* `w2`, `w2_spread`, `w2_floor`, `w2_floor_spread`: mean and standard deviation over the redraws;
* `elbo`, `eubo`, with `_error` (standard error, all redraws pooled) and `_spread` (standard deviation over
  redraws). They are of the exact density of the map that draws. Null is infinite: the map is folded, or does
  not close, somewhere, so that no bound exists. `weightless` is the share of draws and `unknown_density` that of
  exact draws where that is so; `elbo_where_known`, `eubo_where_known` are means over the rest, and not bounds;
* `ess`, `ess_forward`: effective share of the weights at draws of the flow and at exact draws;
* `modes`, `modes_worst`, `mode_tv`, `mode_tv_spread`, `mode_tv_floor`, `entropic`: coverage;
* `log_evidence` with `_error` and `_known`, `free_energy` (learned), `khat`;
* `residual`, `loss`, `dropped`: of the last epoch; `dropped` is the share of locations without finite numbers;
* `energy_calls`: of the training of this seed, pilot included; `evaluation_calls`: of its draws;
* `train_seconds`: wall time of the training program, compilation included, and `seeds_together`, how many seeds
  it trained: the time of one seed alone is not known from it, and is less;
* `epochs`, `device`, `commit`, `versions`, `command`: of the training; `n` and `trials`: of the evaluation.
"""

from typing import Any

import numpy as np

from temperflow.app.build import Survey
from temperflow.app.reproduce.batch import METRICS, TRAINED, Batch

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
    "train_seconds": None,
    "energy_calls": None,
}


def records(batch: Batch) -> list[dict[str, Any]]:
    """One record a seed of a batch that has been trained and measured."""
    told, measured = batch.read_json(TRAINED), batch.read_json(METRICS)
    survey: Survey | None = batch.survey
    found = []
    for index, seed in enumerate(batch.seeds):
        figures = dict(measured[str(seed)] or {})
        trouble = told["trouble"].get(str(seed))
        config = batch.row.config
        locations = config.training.walkers * (config.training.steps + 1)
        last = {name: values[index] for name, values in told["last"].items()}
        # Measuring costs calls too; those are kept apart from what training cost.
        evaluation_calls = figures.pop("energy_calls", 0)
        found.append(
            {
                "row": batch.row.name,
                "recipe": batch.row.name.partition("+")[0],
                "ablation": batch.row.name.partition("+")[2] or None,
                "target": batch.row.target,
                "seed": seed,
                "status": "diverged" if trouble and trouble["last"] == told["epochs"] else "trained",
                "trouble": trouble,
                **figures,
                "residual": last.get("residual"),
                "loss": last.get("loss"),
                "dropped": _share(last.get("dropped"), locations),
                "energy_calls": told["energy_calls"] + (0 if survey is None else survey.energy_calls),
                "evaluation_calls": evaluation_calls,
                "train_seconds": told["train_seconds"],
                "seeds_together": len(batch.seeds),
                **{name: told[name] for name in ("epochs", "device", "commit", "versions", "command")},
            }
        )
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


def _known(sound: list[dict[str, Any]], name: str) -> list[float] | None:
    """The figure of every seed; None where there are no seeds, or one without it."""
    values = [record[name] for record in sound if record.get(name) is not None]
    return values if values and len(values) == len(sound) else None


def _share(count: float | None, of: int) -> float | None:
    return None if count is None else count / of
