"""The locations a control is trained at: everything the residual needs of the target, stored once."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from temperflow.paths import Cached
from temperflow.proposals import JointDensity, Rollout
from temperflow.proposals.weights import normalised


class Location(eqx.Module):
    r"""$(x, t, \beta)$ with the cached pair and a weight; leading axes where batched.

    `weight` is the path weight relative to the mean of its time slice, and zero at a location
    that is not to be used: one where the energy, its gradient or the walker was not finite.
    There `valid` is false and every stored number is a harmless zero, so nothing downstream can
    turn it into a NaN gradient.

    >>> import jax.numpy as jnp
    >>> from temperflow.paths import Cached
    >>> seen = Cached(energy=jnp.array([2.0, jnp.inf]), gradient=jnp.array([[1.0], [jnp.nan]]))
    >>> pair, valid = jnp.ones(2), jnp.array([True, False])
    >>> places = masked(Location(t=pair, x=jnp.array([[3.0], [9.0]]), beta=pair, cached=seen, weight=pair, valid=valid))
    >>> places.x.tolist(), places.cached.energy.tolist(), places.weight.tolist()
    ([[3.0], [0.0]], [2.0, 0.0], [1.0, 0.0])
    """

    t: Float[Array, "*batch"]
    x: Float[Array, "*batch dim"]
    beta: Float[Array, "*batch"]
    cached: Cached
    weight: Float[Array, "*batch"]
    valid: Bool[Array, "*batch"]


def locations_of(rollout: Rollout, joint: JointDensity, weight_limit: float = jnp.inf) -> Location:
    """Every walker at every recorded time as a location; leading axes (slices, walkers).

    Args:
        rollout: what the walkers did.
        joint: for their temperatures.
        weight_limit: larger log weights count as this; a bias, for reproductions of others' work.
    """
    walkers = rollout.walkers
    shape = walkers.log_weight.shape
    finite = jnp.isfinite(walkers.log_weight) & jnp.isfinite(walkers.cached.energy)
    finite &= jnp.all(jnp.isfinite(walkers.cached.gradient), axis=-1)
    finite &= jnp.all(jnp.isfinite(walkers.x), axis=-1) & jnp.isfinite(walkers.xi)
    log_weight = jnp.where(finite, jnp.minimum(walkers.log_weight, weight_limit), -jnp.inf)
    relative = jax.vmap(normalised)(log_weight) * shape[1]
    location = Location(
        jnp.broadcast_to(rollout.times[:, None], shape),
        walkers.x,
        jax.vmap(jax.vmap(joint.beta))(walkers.xi),
        walkers.cached,
        relative,
        finite,
    )
    return masked(location)


def masked(location: Location) -> Location:
    """Zeros in place of whatever stands at an invalid location; time and validity stay."""

    def clean(leaf: Array) -> Array:
        mask = jnp.reshape(location.valid, location.valid.shape + (1,) * (leaf.ndim - location.valid.ndim))
        return jnp.where(mask, leaf, jnp.zeros_like(leaf))

    kept = (location.t, location.valid)
    cleaned = jax.tree.map(clean, eqx.tree_at(lambda p: (p.t, p.valid), location, (None, None)))
    # A temperature of zero is no temperature: cold is the harmless value here.
    beta = jnp.where(location.valid, location.beta, 1.0)
    return eqx.tree_at(lambda p: (p.t, p.valid, p.beta), cleaned, (*kept, beta), is_leaf=lambda leaf: leaf is None)


class Buffer(eqx.Module):
    """First in, first out, over whole rollouts; leading axes (rollouts, slices, walkers).

    Args:
        locations: the stored locations.
        filled: how many rollouts have ever been stored.

    >>> import equinox as eqx, jax, jax.numpy as jnp
    >>> buffer = Buffer.empty(rollouts=2, slices=3, walkers=4, dim=1)
    >>> blank = jax.tree.map(lambda leaf: leaf[0], buffer.locations)
    >>> for epoch in (1.0, 2.0, 3.0):
    ...     buffer = buffer.push(eqx.tree_at(lambda places: places.t, blank, jnp.full((3, 4), epoch)))
    >>> sorted(set(buffer.locations.t.ravel().tolist()))  # room for two: the first has gone
    [2.0, 3.0]
    >>> buffer.sample(jax.random.key(0), 5).x.shape
    (5, 1)
    """

    locations: Location
    filled: Int[Array, ""]

    @staticmethod
    def empty(rollouts: int, slices: int, walkers: int, dim: int) -> "Buffer":
        """Room for `rollouts` rollouts."""
        shape = (rollouts, slices, walkers)

        def scalars() -> Array:
            return jnp.zeros(shape)

        def vectors() -> Array:
            return jnp.zeros((*shape, dim))

        return Buffer(
            Location(
                scalars(), vectors(), jnp.ones(shape), Cached(scalars(), vectors()), scalars(), jnp.zeros(shape, bool)
            ),
            jnp.array(0),
        )

    def push(self, new: Location) -> "Buffer":
        """Store one rollout over the oldest."""
        slot = self.filled % self.locations.t.shape[0]
        stored = jax.tree.map(lambda old, leaf: old.at[slot].set(leaf), self.locations, new)
        return Buffer(stored, self.filled + 1)

    def sample(self, key: PRNGKeyArray, count: int) -> Location:
        """`count` locations, each uniform over what is stored."""
        return self.at(self.places(key, count))

    def places(self, key: PRNGKeyArray, count: int) -> Int[Array, " count"]:
        """Where in the buffer they are."""
        rollouts, slices, walkers = self.locations.t.shape
        available = jnp.minimum(self.filled, rollouts) * slices * walkers
        return jax.random.randint(key, (count,), 0, available)

    def at(self, places: Int[Array, " count"]) -> Location:
        """What is stored there."""
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:])[places], self.locations)
