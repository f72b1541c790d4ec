"""The PINN residual of the continuity equation, and the loss made of it."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.models import Divergence, Model
from temperflow.paths import Continuum
from temperflow.training.buffer import Location


def residuals(
    key: PRNGKeyArray, model: Model, location: Location, continuum: Continuum, divergence: Divergence
) -> Float[Array, "2"]:
    r"""$r = \partial_t F - \partial_t U + \nabla\cdot\mu - \nabla U\cdot\mu$ at one location, twice.

    MATH.md section 2. Zero everywhere iff μ transports the path and F is its free energy. The
    two numbers differ only in their estimates of the divergence; their product is unbiased for
    $r^2$. $\partial_t U + \nabla U\cdot\mu$ is one derivative along $(1, \mu)$ and the target is
    present only through the cached pair.
    """
    t, x, beta = location.t, location.x, location.beta
    one = jnp.ones_like(t)
    velocity, divergences = divergence(key, model.control.at(t, beta), x)
    rate = model.free_energy.rate(t, beta)
    _, along = jax.jvp(
        lambda t, x: continuum.energy(t, beta, x, location.cached, model.potential),
        (t, x),
        (one, velocity),
    )
    return rate - along + divergences


class Loss(eqx.Module):
    r"""The mean of $\rho(r)$ over a batch, $\rho(r) = r^2$ or a pseudo-Huber of it.

    Args:
        divergence: how the control's divergence is evaluated.
        weighted: weigh locations by their path weights, the Jarzynski-weighted loss of the paper.
        robust: beyond residuals of this size the loss grows linearly,
            $\rho = 2\delta^2(\sqrt{1 + r^2/\delta^2} - 1)$; None is the plain square. It needs
            an exact divergence: a product of two estimates may be negative.

    >>> import equinox as eqx, jax, jax.numpy as jnp
    >>> from temperflow.models import Control, ExactDivergence, FourierFeatures, FreeEnergy, Network
    >>> from temperflow.paths import Cached, Identity
    >>> raw = FourierFeatures(jax.random.key(0), dim=1, count=0, spread=1.0, raw_scale=1.0)
    >>> control = Control(Network(jax.random.key(1), 1, 4, 1, position=raw), output_scale=1.0)
    >>> model = Model(control, FreeEnergy(Network(jax.random.key(2), 1, 4, 1, time=raw)), potential=None)
    >>> silent = jax.tree.map(lambda leaf: 0.0 * leaf if eqx.is_array(leaf) else leaf, model)
    >>> x, some = jnp.array([[-1.0], [0.5], [2.0]]), jnp.ones(3)
    >>> normal = Cached(0.5 * x[:, 0] ** 2 + 0.5 * jnp.log(2.0 * jnp.pi), x)  # the source itself as the target
    >>> places = Location(0.5 * some, x, some, normal, some, jnp.array([True] * 3))
    >>> path, loss, key = Continuum(1, 1.0, Identity()), Loss(ExactDivergence()), jax.random.key(3)
    >>> [bool(loss(key, each, places, path)[0] < 1e-10) for each in (silent, model)]  # to stand still is right there
    [True, False]
    """

    divergence: Divergence
    weighted: bool = eqx.field(static=True, default=False)
    robust: float | None = None

    def __call__(
        self, key: PRNGKeyArray, model: Model, batch: Location, continuum: Continuum
    ) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
        """The loss, and the squared residual of every location, NaN where it was not valid."""
        keys = jax.random.split(key, batch.t.shape[0])
        pairs = jax.vmap(lambda k, p: residuals(k, model, p, continuum, self.divergence))(keys, batch)
        squares = pairs[:, 0] * pairs[:, 1]
        shares = batch.weight if self.weighted else batch.valid.astype(squares.dtype)
        terms = squares
        if self.robust is not None:
            terms = 2.0 * self.robust**2 * (jnp.sqrt(1.0 + squares / self.robust**2) - 1.0)
        # Invalid locations hold zeros, so `terms` is finite there and the product drops it.
        loss = jnp.sum(shares * terms) / jnp.maximum(jnp.sum(shares), 1e-30)
        return loss, jnp.where(batch.valid, squares, jnp.nan)
