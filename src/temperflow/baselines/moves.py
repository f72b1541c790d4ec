"""Local moves: Metropolis kernels that leave one level of the path invariant."""

from abc import abstractmethod

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from temperflow.baselines.geometric import GeometricPath, Point


class AbstractMove(eqx.Module):
    """A kernel that leaves $e^{-U_s}$ invariant for one point; batching is `jax.vmap`'s job."""

    target_acceptance: eqx.AbstractVar[float]

    @property
    @abstractmethod
    def calls(self) -> int:
        """Target calls of one move."""

    @property
    @abstractmethod
    def uses_gradient(self) -> bool:
        """Whether points must carry the target's gradient."""

    @abstractmethod
    def __call__(
        self,
        key: PRNGKeyArray,
        path: GeometricPath,
        s: Float[Array, ""],
        step: Float[Array, " dim"],
        point: Point,
    ) -> tuple[Point, Float[Array, ""]]:
        """The next point, and the probability with which the proposal was to be accepted."""


class RandomWalk(AbstractMove):
    """Random-walk Metropolis, $x' = x + h z$ with $z$ standard normal: one energy, no gradient.

    Args:
        target_acceptance: what adaptation aims at; 0.23 is optimal as the dimension grows
            (Roberts, Gelman & Gilks 1997), 0.44 in one dimension.

    >>> RandomWalk().calls
    1
    """

    target_acceptance: float = eqx.field(static=True, default=0.3)

    @property
    def calls(self) -> int:
        return 1

    @property
    def uses_gradient(self) -> bool:
        return False

    def __call__(
        self,
        key: PRNGKeyArray,
        path: GeometricPath,
        s: Float[Array, ""],
        step: Float[Array, " dim"],
        point: Point,
    ) -> tuple[Point, Float[Array, ""]]:
        noise_key, accept_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, point.x.shape, point.x.dtype)
        proposal = path.evaluate(point.x + step * noise, with_gradient=False)
        log_ratio = path.energy(s, point) - path.energy(s, proposal)
        return metropolis(accept_key, log_ratio, proposal, point)


class Hamiltonian(AbstractMove):
    r"""A short Hamiltonian trajectory with fresh momentum (Duane et al. 1987; Neal 2011).

    Leapfrog with $p \leftarrow p - \tfrac h2 \nabla U_s$, $x \leftarrow x + h p$,
    $p \leftarrow p - \tfrac h2 \nabla U_s$, accepted with probability $\min(1, e^{-\Delta H})$.
    One step is the Metropolis-adjusted Langevin algorithm. The cached gradient serves the first
    half kick, so a move costs `leapfrog_steps` target calls.

    Args:
        leapfrog_steps: number of leapfrog steps.
        jitter: the step of each move is scaled by a uniform factor in `1 ± jitter`, drawn apart
            from the state, so that no trajectory length is in tune with a mode's period.
        target_acceptance: what adaptation aims at.

    >>> Hamiltonian(leapfrog_steps=4).calls
    4
    """

    leapfrog_steps: int = eqx.field(static=True, default=3)
    jitter: float = eqx.field(static=True, default=0.3)
    target_acceptance: float = eqx.field(static=True, default=0.7)

    @property
    def calls(self) -> int:
        return self.leapfrog_steps

    @property
    def uses_gradient(self) -> bool:
        return True

    def __call__(
        self,
        key: PRNGKeyArray,
        path: GeometricPath,
        s: Float[Array, ""],
        step: Float[Array, " dim"],
        point: Point,
    ) -> tuple[Point, Float[Array, ""]]:
        momentum_key, jitter_key, accept_key = jax.random.split(key, 3)
        momentum = jax.random.normal(momentum_key, point.x.shape, point.x.dtype)
        low, high = 1 - self.jitter, 1 + self.jitter
        step = step * jax.random.uniform(jitter_key, (), step.dtype, low, high)

        def leapfrog(
            carry: tuple[Point, Float[Array, " dim"]], _: None
        ) -> tuple[tuple[Point, Float[Array, " dim"]], None]:
            place, velocity = carry
            velocity = velocity - 0.5 * step * path.gradient(s, place)
            place = path.evaluate(place.x + step * velocity, with_gradient=True)
            velocity = velocity - 0.5 * step * path.gradient(s, place)
            return (place, velocity), None

        (proposal, last), _ = jax.lax.scan(leapfrog, (point, momentum), None, length=self.leapfrog_steps)
        kinetic_loss = 0.5 * jnp.sum(momentum**2) - 0.5 * jnp.sum(last**2)
        log_ratio = path.energy(s, point) - path.energy(s, proposal) + kinetic_loss
        return metropolis(accept_key, log_ratio, proposal, point)


def acceptance_probability(log_ratio: Float[Array, "..."]) -> Float[Array, "..."]:
    """min(1, e^log_ratio), and 0 where the ratio is not a number.

    A chain that sits where the density is zero has log_ratio = +inf for any proposal inside, and
    walks in; from nowhere to nowhere is inf - inf, not a number, and rejected.
    """
    return jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))


def metropolis(
    key: PRNGKeyArray, log_ratio: Float[Array, ""], proposal: Point, point: Point
) -> tuple[Point, Float[Array, ""]]:
    """Keep `proposal` with probability min(1, e^log_ratio), else `point`."""
    probability = acceptance_probability(log_ratio)
    accepted = jax.random.uniform(key, (), probability.dtype) < probability
    return (
        jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposal, point),
        probability,
    )


def repeat_move(
    key: PRNGKeyArray,
    move: AbstractMove,
    times: int,
    path: GeometricPath,
    s: Float[Array, ""],
    step: Float[Array, " dim"],
    point: Point,
) -> tuple[Point, Float[Array, ""]]:
    """`times` moves in a row and their mean acceptance probability; `times * move.calls` calls."""

    def once(place: Point, turn: Array) -> tuple[Point, Float[Array, ""]]:
        return move(jax.random.fold_in(key, turn), path, s, step, place)

    last, probability = jax.lax.scan(once, point, jnp.arange(times))
    return last, jnp.mean(probability)


def fold_keys(key: PRNGKeyArray, count: int) -> Shaped[Array, "{count} ..."]:
    """One key an index, the same for an index whatever the count."""
    return jax.vmap(lambda index: jax.random.fold_in(key, index))(jnp.arange(count))


def first_step(path: GeometricPath) -> Float[Array, " dim"]:
    """The step to start adapting from: what suits the source itself."""
    dim = path.target.dim
    return jnp.full(dim, path.source_scale * dim**-0.25)


def follow_spread(step: Float[Array, " dim"], variance: Float[Array, " dim"]) -> Float[Array, " dim"]:
    """The step with the profile over coordinates that the points' spread has, and the size it had.

    >>> follow_spread(jnp.array([1.0, 1.0]), jnp.array([1.0, 16.0])).tolist()
    [0.5, 2.0]
    """
    wanted = 0.5 * (jnp.log(variance) - jnp.mean(jnp.log(variance)))
    # Never more than e^5 from the mean, and no opinion where the points have collapsed.
    wanted = jnp.where(jnp.all(jnp.isfinite(wanted)), jnp.clip(wanted, -5.0, 5.0), 0.0)
    return jnp.exp(jnp.mean(jnp.log(step)) + wanted)
