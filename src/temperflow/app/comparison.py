"""The same figures for what a user would run instead, from the same source."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from temperflow.baselines import annealed_importance, parallel_tempering, tempered_smc
from temperflow.diagnostics import coverage, w2
from temperflow.sampling import Draws, Sampler
from temperflow.targets import Target

SMC_ISLANDS = 10


def compare(
    sampler: Sampler,
    n: int = 2500,
    seed: int = 0,
    training_calls: int | None = None,
    say: Callable[[str], None] = lambda name: None,
) -> list[dict[str, Any]]:
    r"""One row for each way to sample the target, every one from $N(0, \sigma_0^2 I)$ of this sampler.

    The classical ones run at their defaults and draw as many; W2 and modes are those of equally
    weighted draws, beside the floor that exact draws score against the same exact draws.

    Args:
        sampler: trained; its own rows are the flow's draws and the annealed ones.
        n: draws of each.
        seed: of all randomness.
        training_calls: what training cost, counted into the sampler's rows.
        say: told what runs next.
    """
    target, source = sampler.proposal.target, float(sampler.proposal.joint.continuum.source_scale)
    exact = None if target.sample is None else _exact(target, n, seed)
    floor = None if exact is None else w2(exact[1], exact[0])
    rows = []
    for name, trained, run in _ways(sampler, target, source, n, seed):
        say(name)
        began = time.monotonic()
        draws, bounds = run()
        jax.block_until_ready(draws.x)
        seconds = time.monotonic() - began
        calls = draws.energy_calls + (training_calls or 0 if trained else 0)
        rows.append(
            {
                "sampler": name,
                **_row(draws, target, None if exact is None else exact[0], n, seed),
                "w2_floor": floor,
                **bounds,
                "energy_calls": calls,
                "seconds": round(seconds, 2),
            }
        )
    return rows


def _ways(
    sampler: Sampler, target: Target, source: float, n: int, seed: int
) -> Iterator[tuple[str, bool, Callable[[], tuple[Draws, dict[str, float | None]]]]]:
    key = jax.random.fold_in(jax.random.key(seed), 4)

    def flow() -> tuple[Draws, dict[str, float | None]]:
        draws = sampler.sample(n, seed=seed)
        return draws, {"elbo": _mean(draws.log_weight), "eubo": _eubo(sampler, target, n, seed)}

    def annealed() -> tuple[Draws, dict[str, float | None]]:
        return sampler.sample(n, seed=seed, method="anneal"), {}

    def tempering() -> tuple[Draws, dict[str, float | None]]:
        return parallel_tempering(key, target, n=n, source_scale=source)[0], {}

    def smc() -> tuple[Draws, dict[str, float | None]]:
        # The mean of log Z over islands is below log Z, each island being unbiased up to 1/particles.
        draws, info = tempered_smc(
            key, target, particles=-(-n // SMC_ISLANDS), islands=SMC_ISLANDS, source_scale=source
        )
        return draws, {"elbo": _mean(info.log_evidence)}

    def importance() -> tuple[Draws, dict[str, float | None]]:
        draws, _ = annealed_importance(key, target, n=n, source_scale=source)
        return draws, {"elbo": _mean(draws.log_weight)}

    yield "temperflow, flow", True, flow
    yield "temperflow, annealed", True, annealed
    yield "parallel tempering", False, tempering
    yield "tempered SMC", False, smc
    yield "annealed importance sampling", False, importance


def _row(draws: Draws, target: Target, exact: Any, n: int, seed: int) -> dict[str, float | int | None]:
    even = draws.resample(n, seed)
    found = None if target.modes is None else coverage(target.modes, even.x)
    return {
        "w2": None if exact is None else w2(np.asarray(even.x), exact),
        "elbo": None,
        "eubo": None,
        "ess": draws.ess,
        "log_evidence": float(draws.log_evidence),
        "log_evidence_error": float(draws.log_evidence_error),
        "modes": None if found is None else int(found.modes),
        "mode_tv": None if found is None else found.mode_tv,
    }


def _exact(target: Target, n: int, seed: int) -> tuple[Any, Any]:
    assert target.sample is not None
    first, second = jax.random.split(jax.random.fold_in(jax.random.key(seed), 5))
    return np.asarray(target.sample(first, n)), np.asarray(target.sample(second, n))


def _eubo(sampler: Sampler, target: Target, n: int, seed: int) -> float | None:
    """At exact draws, by the inverse of the map; None without such draws."""
    if target.sample is None:
        return None
    x = target.sample(jax.random.fold_in(jax.random.key(seed), 6), n)
    with jax.default_matmul_precision("float32"):
        log_density = jax.vmap(target.log_density)(x)
    log_weight = np.asarray(log_density, np.float64) - np.asarray(sampler.log_density(x), np.float64)
    return float(np.mean(np.where(np.isnan(log_weight), np.inf, log_weight)))


def _mean(values: Any) -> float:
    return float(np.mean(np.asarray(values, np.float64)))
