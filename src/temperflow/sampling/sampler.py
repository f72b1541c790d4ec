"""The trained sampler: independent draws with exact weights, in three ways."""

import math
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from temperflow.models import Model
from temperflow.proposals import Proposal, Walker, rollout, target_calls
from temperflow.proposals.weights import log_mean_exp, log_mean_exp_error
from temperflow.sampling.draws import Draws
from temperflow.sampling.flow import Flow, Transported

Method = Literal["flow", "anneal", "temper"]
# Rows pushed through the control at once, d + 1 a point (its value and its derivatives): enough
# to fill a device, little enough to fit one.
ROWS = 24_576
# How far an inverse may miss, relative to the point, before its density counts as unknown.
ROUND_TRIP = 1e-4
# Draws of one seed: as far as their numbers count in 32 bits.
MOST_DRAWS = 2**31 - ROWS
METHODS: tuple[Method, ...] = ("flow", "anneal", "temper")


class Sampler(eqx.Module):
    r"""What training leaves behind (MATH.md sections 5 and 6).

    Three ways to draw, each with weights that are exact for what is simulated:

    * `flow`: the control alone as a map; $w = \hat\pi_1/q$ with q the map's own density. One
      target call a draw, and less than one chunk's more so that all chunks are equal.
    * `anneal`: controlled Langevin dynamics at temperature one with resampling.
    * `temper`: the same with temperature a coordinate; the cold walkers are the draws. The
      number of draws is then only about n.

    Args:
        model: the trained functions.
        proposal: the dynamics it was trained with, target included.
        flow: how the control becomes a map.
        steps: time steps of an annealed run.
        islands: independent populations of an annealed run; their scatter is the evidence's error.
        resample_below: effective share under which a population resamples.

    >>> import jax, jax.numpy as jnp, math
    >>> from temperflow.models import Control, FourierFeatures, FreeEnergy, Network
    >>> from temperflow.paths import Continuum, Identity
    >>> from temperflow.proposals import JointDensity, Transport
    >>> from temperflow.sampling import EulerFlow
    >>> from temperflow.targets import Target
    >>> time = FourierFeatures(jax.random.key(0), dim=1, count=2, spread=1.0, raw_scale=1.0)
    >>> position = FourierFeatures(jax.random.key(3), dim=2, count=0, spread=1.0, raw_scale=1.0)
    >>> untrained = Control(Network(jax.random.key(1), 2, 4, 1, position, time), output_scale=1.0)
    >>> model = Model(untrained, FreeEnergy(Network(jax.random.key(2), 1, 4, 1, time=time)), potential=None)
    >>> target = Target(lambda x: -0.5 * jnp.sum(x**2), dim=2, log_evidence=math.log(2 * math.pi))
    >>> proposal = Transport(JointDensity(Continuum(2, 1.0, Identity()), tempering=None), target)
    >>> sampler = Sampler(model, proposal, EulerFlow(4))
    >>> draws = sampler.sample(1000, seed=0)
    >>> bool(abs(draws.log_evidence - target.log_evidence) < 5 * draws.log_evidence_error)  # weights put it right
    True
    >>> bool(jnp.allclose(sampler.log_density(draws.x), draws.log_proposal, atol=1e-4))  # there and back
    True
    """

    model: Model
    proposal: Proposal
    flow: Flow
    steps: int = eqx.field(static=True, default=200)
    islands: int = eqx.field(static=True, default=16)
    resample_below: float = eqx.field(static=True, default=0.5)

    @property
    def dim(self) -> int:
        """d."""
        return self.proposal.joint.continuum.dim

    @property
    def free_energy(self) -> float:
        r"""$F_1(1)$, the model's own belief about $-\log Z$; it has not been corrected by weights."""
        one = jnp.ones(())
        return float(self.model.free_energy(one, one))

    def sample(self, n: int, seed: int = 0, method: Method = "flow", first: int = 0) -> Draws:
        """`n` weighted draws; the same seed gives the same draws.

        Those of the flow are a sequence for each seed: the first k do not depend on n, up to
        rounding, and a piece from the middle can be had alone. Annealing rounds n up to equal islands.

        Args:
            n: how many.
            seed: of all randomness.
            method: which of the three ways.
            first: number of the first draw, counted from 0; `flow` only.
        """
        if n < 1:
            raise ValueError(f"n is a positive number of draws; got {n}")
        if first and method != "flow":
            raise ValueError(f"only the flow's draws can be had from the middle; got method={method!r}, first={first}")
        if not 0 <= first <= MOST_DRAWS - n:
            raise ValueError(f"a seed has {MOST_DRAWS:,} draws; got first={first}, n={n}")
        key = jax.random.key(seed)
        match method:
            case "flow":
                return self._draw_by_flow(key, n, first)
            case "anneal":
                return self._draw_by_annealing(key, n, self.proposal.untempered())
            case "temper":
                tempering = self.proposal.joint.tempering
                if tempering is None:
                    raise ValueError("this sampler was trained without tempering; use method='anneal'")
                return self._draw_by_annealing(key, round(n / math.exp(tempering.log_cold_share())), self.proposal)
        raise ValueError(f"method is one of {', '.join(METHODS)}; got {method!r}")

    def log_density(self, x: Float[Array, "n dim"]) -> Float[Array, " n"]:
        """log q of the flow at given points, through the inverse of the same map.

        NaN where the inverse does not close or the map is folded.
        """
        return _density_at(self, x)

    def _draw_by_flow(self, key: PRNGKeyArray, n: int, first: int) -> Draws:
        x, log_proposal, log_density = _flow_draws(self, key, n, jnp.asarray(first))
        log_weight = log_density - log_proposal
        # A draw that left the numbers behind has no weight, and counts as a draw.
        log_weight = jnp.where(jnp.isfinite(log_weight), log_weight, -jnp.inf)
        error = log_mean_exp_error(log_weight) if n > 1 else jnp.asarray(jnp.inf)
        calls = math.prod(_chunks(n, self.dim))
        return Draws(x, log_weight, log_mean_exp(log_weight), error, log_density, log_proposal, calls)

    def _draw_by_annealing(self, key: PRNGKeyArray, n: int, proposal: Proposal) -> Draws:
        islands = min(self.islands, n)
        each = -(-n // islands)
        runs = _annealed(self, key, proposal, islands, each)
        joint, last = proposal.joint, runs.walkers
        cold = jax.vmap(joint.cold_log_weight)(last.log_weight, last.xi)
        # Each island counts by its evidence: what resampling moved out of the weights.
        log_weight = (cold + runs.log_resampled[:, None]).ravel()
        kept = jnp.ones(log_weight.shape, bool) if joint.tempering is None else jnp.isfinite(cold).ravel()
        evidence = log_mean_exp(runs.log_evidence)
        error = log_mean_exp_error(runs.log_evidence) if islands > 1 else jnp.asarray(jnp.inf)
        calls = islands * target_calls(proposal, each, self.steps)
        x, density = last.x.reshape(-1, self.dim), -last.cached.energy.ravel()
        return Draws(x[kept], log_weight[kept], evidence, error, density[kept], None, calls)


class _Islands(eqx.Module):
    """The ends of several independent rollouts."""

    walkers: Walker
    log_resampled: Float[Array, "*islands"]
    log_evidence: Float[Array, "*islands"]


@eqx.filter_jit
def _annealed(sampler: Sampler, key: PRNGKeyArray, proposal: Proposal, islands: int, each: int) -> _Islands:
    times = jnp.linspace(0.0, 1.0, sampler.steps + 1)

    def island(index: Int[Array, ""]) -> _Islands:
        run = rollout(jax.random.fold_in(key, index), proposal, sampler.model, each, times, sampler.resample_below)
        return _Islands(run.last, run.log_resampled[-1], run.log_evidence(proposal, sampler.model))

    return jax.vmap(island)(jnp.arange(islands))


@eqx.filter_jit
def _flow_draws(
    sampler: Sampler, key: PRNGKeyArray, n: int, first: Int[Array, ""]
) -> tuple[Float[Array, "n dim"], Float[Array, " n"], Float[Array, " n"]]:
    """Points, log q and log density; one key a draw, in chunks that fit any memory."""
    continuum, target = sampler.proposal.joint.continuum, sampler.proposal.target

    def draw(index: Int[Array, ""]) -> tuple[Float[Array, " dim"], Float[Array, ""], Float[Array, ""]]:
        noise = jax.random.normal(jax.random.fold_in(key, index), (continuum.dim,))
        start = continuum.source_scale * noise
        end = sampler.flow.forward(sampler.model.control, start)
        with jax.default_matmul_precision("float32"):
            density = target.log_density(end.x)
        return end.x, _if_known(continuum.log_source(start) - end.log_det, end), density

    chunks, points = _chunks(n, continuum.dim)
    drawn = jax.lax.map(draw, first + jnp.arange(chunks * points), batch_size=points)
    return jax.tree.map(lambda leaf: leaf[:n], drawn)


@eqx.filter_jit
def _density_at(sampler: Sampler, x: Float[Array, "n dim"]) -> Float[Array, " n"]:
    continuum = sampler.proposal.joint.continuum

    def density(point: Float[Array, " dim"]) -> Float[Array, ""]:
        start = sampler.flow.inverse(sampler.model.control, point)
        return _if_known(continuum.log_source(start.x) - start.log_det, start)

    n = x.shape[0]
    chunks, points = _chunks(n, continuum.dim)
    return jax.lax.map(density, x[jnp.arange(chunks * points) % n], batch_size=points)[:n]


def _if_known(log_density: Float[Array, ""], way: Transported) -> Float[Array, ""]:
    return jnp.where(way.error <= ROUND_TRIP, log_density, jnp.nan)


def _chunks(n: int, dim: int) -> tuple[int, int]:
    """How many chunks of how many points make n: equal ones, so that a single program serves all."""
    chunks = -(-n * (dim + 1) // ROWS)
    return chunks, -(-n // chunks)
