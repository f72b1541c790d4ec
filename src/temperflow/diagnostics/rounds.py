"""The part of an evaluation that needs the sampler and its device; what is left is arithmetic on the host."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Float

from temperflow.sampling.draws import Draws
from temperflow.targets.base import Target

Numbers = Float[np.ndarray, "..."]


@runtime_checkable
class FlowSampler(Protocol):
    r"""What `evaluate` asks of a sampler: draws of a map, and the density of that same map."""

    @property
    def free_energy(self) -> float:
        """The learned $F(1, 1)$; on a normalised target $e^{-F}$ is about the share of mass found."""
        ...

    def sample(self, n: int, *, seed: int, method: Literal["flow"] = "flow") -> Draws:
        r"""`n` draws whose `log_weight` is $\log\hat\pi_1 - \log q$ with nothing left out."""
        ...

    def log_density(self, x: Float[Array, "n dim"]) -> Float[Array, " n"]:
        """The exact log q of given points, by the inverse of the map that draws (section 6)."""
        ...


@dataclass(frozen=True)
class Rounds:
    r"""Everything that an evaluation asks a sampler for; leading axes (trials, n).

    They can be kept in a file and summarised elsewhere: the assignments behind a W2 need no
    accelerator, and these need one.

    Args:
        x: the flow's draws.
        log_weight: $\log w$ at them, minus infinity where it is not a number.
        exact: exact draws; None for a target without.
        other: as many again, for the floor.
        exact_log_weight: $\log w$ at `exact`, plus infinity where either half is not a number.
        free_energy: the learned $F(1, 1)$.
        energy_calls: target evaluations that the draws cost, all trials together.

    >>> import numpy as np
    >>> rounds = Rounds(np.zeros((3, 5, 2)), np.zeros((3, 5)), None, None, None, 0.0, 15)
    >>> rounds.trials, rounds.n
    (3, 5)
    """

    x: Float[np.ndarray, "trials n dim"]
    log_weight: Float[np.ndarray, "trials n"]
    exact: Float[np.ndarray, "trials n dim"] | None
    other: Float[np.ndarray, "trials n dim"] | None
    exact_log_weight: Float[np.ndarray, "trials n"] | None
    free_energy: float
    energy_calls: int

    @property
    def trials(self) -> int:
        """How many times both sides were drawn."""
        return self.x.shape[0]

    @property
    def n(self) -> int:
        """Draws in a trial."""
        return self.x.shape[1]

    def each(self) -> Iterator[tuple[Numbers, Numbers, Numbers, Numbers, Numbers]]:
        """Trial by trial, of a target that has exact draws: x, log w, exact, other, log w at exact."""
        assert self.exact is not None
        assert self.other is not None
        assert self.exact_log_weight is not None
        yield from zip(self.x, self.log_weight, self.exact, self.other, self.exact_log_weight, strict=True)


def play(sampler: FlowSampler, target: Target, n: int = 2500, trials: int = 10, seed: int = 0) -> Rounds:
    """Draw afresh on both sides, `trials` times.

    Args:
        sampler: draws and the density of the map that made them.
        target: what it should sample.
        n: draws in a trial, at least 2.
        trials: how many, at least 1.
        seed: of all the randomness, exact draws included.
    """
    if n < 2 or trials < 1:
        raise ValueError(f"evaluate: got n={n}, trials={trials}, expected n of at least 2 and trials of at least 1")
    # Numbers from a generator of another kind: the sampler's keys never meet those of the exact draws.
    seeds = np.random.default_rng(seed).integers(2**31 - 1, size=trials)
    drawn = [sampler.sample(n, seed=int(each), method="flow") for each in seeds]
    exact = other = exact_log_weight = None
    if target.sample is not None:
        keys = [jax.random.split(jax.random.fold_in(jax.random.key(seed), trial)) for trial in range(trials)]
        pairs = [(target.sample(first, n), target.sample(second, n)) for first, second in keys]
        exact_log_weight = np.stack([_exact_log_weight(sampler, target, first) for first, _ in pairs])
        exact, other = (np.stack([np.asarray(pair[side], np.float64) for pair in pairs]) for side in (0, 1))
    return Rounds(
        np.stack([np.asarray(draws.x, np.float64) for draws in drawn]),
        np.stack([_weightless_if_nan(draws.log_weight) for draws in drawn]),
        exact,
        other,
        exact_log_weight,
        float(sampler.free_energy),
        sum(draws.energy_calls for draws in drawn),
    )


def _exact_log_weight(sampler: FlowSampler, target: Target, exact: Float[Array, "n dim"]) -> Numbers:
    """log w at exact draws; plus infinity where either half of it is not a number."""
    with jax.default_matmul_precision("float32"):  # as `Target.energy_and_grad` has it
        log_density = jax.vmap(target.log_density)(exact)
    log_proposal = np.asarray(sampler.log_density(exact), np.float64)
    log_weight = np.asarray(log_density, np.float64) - log_proposal
    return np.where(np.isnan(log_weight), np.inf, log_weight)


def _weightless_if_nan(log_weight: Float[Array, " n"]) -> Numbers:
    values = np.asarray(log_weight, np.float64)
    return np.where(np.isnan(values), -np.inf, values)
