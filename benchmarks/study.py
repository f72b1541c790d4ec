"""Train variants of a recipe, several seeds in one program, and say what each reached.

    python -m benchmarks.study --plan plan.json --out study.jsonl

The plan is a list of `{"name", "target", "recipe", "overrides", "seeds"}`, with `"w2": true` where the
distance is worth its seconds. A variant whose name is already in the output is skipped, so an
interrupted study goes on where it stopped. Several workers compile one variant while another
trains; their seconds then say nothing.
"""

import argparse
import json
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from temperflow import targets
from temperflow.app import recipes
from temperflow.app.build import Built, Survey, build, needs_survey, survey_of
from temperflow.app.config import Config
from temperflow.diagnostics import coverage, elbo, eubo, forward_ess, reverse_ess, w2
from temperflow.sampling import Sampler
from temperflow.targets import Target
from temperflow.training import Trainer, TrainState

BINS = 20


def train(trainer: Trainer, states: TrainState, epochs: int) -> tuple[TrainState, dict[str, Any], float, float]:
    """All seeds at once. Returns also the seconds until the first epoch was done, and all of them."""
    advance = eqx.filter_jit(lambda trainer, states: eqx.filter_vmap(trainer.epoch)(states), donate="all-except-first")
    begin = time.perf_counter()
    states, info = advance(trainer, states)
    jax.block_until_ready(info)
    first = time.perf_counter() - begin
    for _ in range(epochs - 1):
        states, info = advance(trainer, states)
    jax.block_until_ready(info)
    last = {name: np.asarray(value).round(4).tolist() for name, value in vars(info).items()}
    return states, last, first, time.perf_counter() - begin


def residual_profile(trainer: Trainer, state: TrainState) -> dict[str, list[float]]:
    """The averaged model's residual by time: root mean square over all temperatures and at one, median at one."""
    locations = state.buffer.locations
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), locations)
    pick = jax.random.permutation(jax.random.key(1), flat.t.shape[0])[:200_000]
    flat = jax.tree.map(lambda leaf: leaf[pick], flat)
    _, squares = eqx.filter_jit(trainer.loss)(jax.random.key(0), state.average, flat, trainer.proposal.joint.continuum)
    squares, time_bin = np.asarray(squares), np.minimum((np.asarray(flat.t) * BINS).astype(int), BINS - 1)
    cold = np.asarray(flat.beta) > 0.99

    def rms(mask: np.ndarray) -> list[float]:
        kept = [squares[mask & (time_bin == k)] for k in range(BINS)]
        return [round(float(np.sqrt(np.nanmean(part))), 3) if part.size else float("nan") for part in kept]

    def median(mask: np.ndarray) -> list[float]:
        kept = [np.sqrt(squares[mask & (time_bin == k)]) for k in range(BINS)]
        return [round(float(np.nanmedian(part)), 3) if part.size else float("nan") for part in kept]

    return {"all": rms(np.ones_like(cold)), "cold": rms(cold), "cold_median": median(cold)}


def judge(sampler: Sampler, target: Target, with_w2: bool, n: int = 20_000) -> dict[str, float]:
    """Everything but the many trials that a final table wants."""
    begin = time.perf_counter()
    draws = sampler.sample(n, seed=1)
    assert target.sample is not None
    assert target.modes is not None
    exact = target.sample(jax.random.key(2), n)
    above = jax.vmap(target.log_density)(exact) - sampler.log_density(exact)
    above = jnp.where(jnp.isnan(above), jnp.inf, above)
    flow_seconds = time.perf_counter() - begin
    seen = coverage(target.modes, draws.x[:2500])
    wide = coverage(target.modes, draws.x)
    distances = {}
    if with_w2:
        other = target.sample(jax.random.key(3), 2500)
        distances = {"w2": w2(draws.x[:2500], exact[:2500]), "w2_floor": w2(other, exact[:2500])}
    return {
        **distances,
        "elbo": elbo(draws.log_weight).value,
        "eubo": eubo(above).value,
        "ess": reverse_ess(draws.log_weight).value,
        "ess_forward": forward_ess(above).value,
        "modes": seen.modes,
        "mode_tv": seen.mode_tv,
        "mode_tv_20000": wide.mode_tv,
        "log_evidence": float(draws.log_evidence),
        "free_energy": sampler.free_energy,
        "judge_seconds": flow_seconds,
    }


class Surveys:
    """One pilot run a target, whoever asks first."""

    def __init__(self) -> None:
        self._known: dict[str, Survey] = {}
        self._lock = threading.Lock()

    def of(self, config: Config, target: Target) -> Survey | None:
        """None where the settings need none."""
        if not needs_survey(config):
            return None
        with self._lock:
            if target.name not in self._known:
                begin = time.perf_counter()
                self._known[target.name] = survey_of(config, target, 0)
                print("survey", self._known[target.name], round(time.perf_counter() - begin, 1), flush=True)
            return self._known[target.name]


def run(variant: dict[str, Any], surveys: Surveys) -> dict[str, Any]:
    """One variant, all its seeds."""
    target = targets.get(variant.get("target", "gmm40"))
    config = recipes.get(variant["recipe"]).override(variant.get("overrides", {}))
    survey = surveys.of(config, target)
    built: list[Built] = [build(config, target, survey, seed) for seed in variant["seeds"]]
    trainer = built[0].trainer
    each = [trainer.start(one.model, seed) for one, seed in zip(built, variant["seeds"], strict=True)]
    arrays = [eqx.partition(state, eqx.is_array) for state in each]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[part for part, _ in arrays])
    states, info, first, seconds = train(trainer, eqx.combine(stacked, arrays[0][1]), config.training.epochs)
    results = []
    for index in range(len(variant["seeds"])):
        state = jax.tree.map(lambda leaf, i=index: leaf[i] if eqx.is_array(leaf) else leaf, states)
        results.append(judge(built[0].sampler(state), target, variant.get("w2", False)))
        profile = residual_profile(trainer, state)
        results[-1]["residual_profile"] = profile
    return {
        "name": variant["name"],
        "variant": variant,
        "train_seconds": seconds,
        "first_epoch_seconds": first,
        "last_epoch": info,
        "seeds": results,
        "device": str(jax.devices()[0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1e9, help="start no variant after this long")
    parser.add_argument("--workers", type=int, default=1, help="variants at a time")
    arguments = parser.parse_args()
    done = set()
    if arguments.out.exists():
        done = {json.loads(line)["name"] for line in arguments.out.read_text().splitlines()}
    begin, surveys, printing = time.perf_counter(), Surveys(), threading.Lock()

    def carry_out(variant: dict[str, Any]) -> None:
        if variant["name"] in done or time.perf_counter() - begin > arguments.seconds:
            return
        try:
            result = run(variant, surveys)
        except Exception as error:  # a variant that breaks is a result, and the next one still runs
            traceback.print_exc()
            result = {"name": variant["name"], "variant": variant, "error": repr(error)[:2000]}
        with printing:
            tell(result)

    def tell(result: dict[str, Any]) -> None:
        with arguments.out.open("a") as lines:
            lines.write(json.dumps(result) + "\n")
        variant = result["variant"]
        for seed in result.get("seeds", [{}]):
            shown = {key: round(value, 4) for key, value in seed.items() if isinstance(value, float)}
            print(
                variant["name"], round(result.get("train_seconds", -1), 1), shown, result.get("error", ""), flush=True
            )
            for name, values in seed.get("residual_profile", {}).items():
                print("  ", name, values, flush=True)

    with ThreadPoolExecutor(arguments.workers) as pool:
        list(pool.map(carry_out, json.loads(arguments.plan.read_text())))


if __name__ == "__main__":
    main()
