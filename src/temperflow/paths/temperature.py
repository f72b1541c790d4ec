"""Temperature as a coordinate: the map β(ξ) and the confinement ψ'(ξ)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray


class TemperatureMap(eqx.Module):
    r"""$\beta(\xi) = 1 - (1-\beta_{min})(3u^2 - 2u^3)$, $u = clip((|\xi|-\Delta)/(\Delta'-\Delta), 0, 1)$.

    MATH.md section 1. Continuously differentiable, exactly 1 on the cold plateau
    $|\xi| \le \Delta$ and exactly $\beta_{min}$ beyond $\Delta'$.

    Args:
        hottest: $\beta_{min}$, the smallest inverse temperature, in (0, 1].
        cold_edge: $\Delta$, where the cold plateau ends.
        hot_edge: $\Delta'$, where the hot plateau begins.

    >>> import jax.numpy as jnp
    >>> beta = TemperatureMap(hottest=0.2, cold_edge=0.25, hot_edge=1.9)
    >>> [round(float(beta(jnp.array(xi))), 3) for xi in (0.25, 1.075, -3.0)]
    [1.0, 0.6, 0.2]
    """

    hottest: float
    cold_edge: float
    hot_edge: float

    def __check_init__(self):
        if not 0.0 < self.hottest <= 1.0:
            raise ValueError(f"hottest is an inverse temperature in (0, 1]; got {self.hottest}")
        if not 0.0 < self.cold_edge < self.hot_edge:
            raise ValueError(f"expected 0 < cold_edge < hot_edge; got {self.cold_edge} and {self.hot_edge}")

    def __call__(self, xi: Float[Array, ""]) -> Float[Array, ""]:
        u = jnp.clip((jnp.abs(xi) - self.cold_edge) / (self.hot_edge - self.cold_edge), 0.0, 1.0)
        return 1.0 - (1.0 - self.hottest) * u**2 * (3.0 - 2.0 * u)

    def is_cold(self, xi: Float[Array, "*shape"]) -> Array:
        """Whether the walker counts as a draw at temperature one."""
        return jnp.abs(xi) <= self.cold_edge


class Confinement(eqx.Module):
    r"""$\psi'(\xi) = \psi_{bias}(\xi) - \eta(|\xi|-\tilde\Delta)_+^2$, the log marginal of ξ when F is exact.

    MATH.md section 3, with the sign that makes it normalisable. The adaptive bias is even in ξ
    and linear between equally spaced knots on $[0, \tilde\Delta]$, so that draws from
    $e^{\psi'}$ and its integrals are exact.

    Args:
        edge: $\tilde\Delta$, where the quadratic walls begin.
        sharpness: $\eta$, how steep they are.
        bias: $\psi_{bias}$ at the knots; zeros for none.

    >>> import jax.numpy as jnp
    >>> walls = Confinement(edge=2.0, sharpness=10.0, bias=jnp.zeros(9))
    >>> round(float(walls.log_mass(0.5)), 4), float(walls(jnp.array(1.0)))
    (0.0, 0.0)
    """

    edge: float
    sharpness: float
    bias: Float[Array, " knots"]

    def __check_init__(self):
        if not (self.edge > 0.0 and self.sharpness > 0.0):
            raise ValueError(f"edge and sharpness are positive; got {self.edge} and {self.sharpness}")
        if self.bias.size < 2:
            raise ValueError(f"the bias needs a knot at either end; got {self.bias.size}")

    def __call__(self, xi: Float[Array, ""]) -> Float[Array, ""]:
        distance = jnp.abs(xi)
        outside = jnp.maximum(distance - self.edge, 0.0)
        # The knots are equally spaced, so the cell is known without a search, which would be a loop in every step.
        place = jnp.minimum(distance / self._width(), self.bias.size - 1.0)
        cell = jnp.minimum(place.astype(jnp.int32), self.bias.size - 2)
        bias = self.bias[cell] + (place - cell.astype(place.dtype)) * self._slopes()[cell]
        return bias - self.sharpness * outside**2

    def sample(self, key: PRNGKeyArray) -> Float[Array, ""]:
        """One exact draw from $e^{\\psi'}$: pick a cell or the tail, then invert within it."""
        which, within, sign = jax.random.split(key, 3)
        log_masses = jnp.append(self._log_cell_masses(), self._log_tail_mass())
        cell = jax.random.categorical(which, log_masses)
        inner = jnp.minimum(cell, self.bias.size - 2)
        uniform = jax.random.uniform(within)
        fraction = _inverse_tilted_uniform(self._slopes()[inner], uniform)
        in_cell = (inner.astype(uniform.dtype) + fraction) * self._width()
        # The same uniform number serves the tail, by the half-normal's inverse distribution.
        half_normal = jax.scipy.special.erfinv(uniform) / jnp.sqrt(self.sharpness)
        distance = jnp.where(cell == self.bias.size - 1, self.edge + half_normal, in_cell)
        return jnp.where(jax.random.bernoulli(sign), distance, -distance)

    def log_normaliser(self) -> Float[Array, ""]:
        r"""$\log Z_0^\xi = \log \int e^{\psi'}$, both signs."""
        inside = jax.nn.logsumexp(self._log_cell_masses())
        return jnp.log(2.0) + jnp.logaddexp(inside, self._log_tail_mass())

    def log_mass(self, limit: float) -> Float[Array, ""]:
        r"""$\log\int_{|\xi| \le limit} e^{\psi'}$ for a limit within the walls."""
        if not 0.0 < limit <= self.edge:
            raise ValueError(f"the limit lies in (0, {self.edge}]; got {limit}")
        slopes = self._slopes()
        starts = jnp.arange(slopes.size, dtype=slopes.dtype)
        covered = jnp.clip(limit / self._width() - starts, 0.0, 1.0)
        pieces = _log_mean_exp(slopes * covered) + self.bias[:-1]
        return jax.nn.logsumexp(pieces, b=covered) + jnp.log(2.0 * self._width())

    def _width(self) -> float:
        return self.edge / (self.bias.size - 1)

    def _slopes(self) -> Float[Array, " cells"]:
        return jnp.diff(self.bias)

    def _log_cell_masses(self) -> Float[Array, " cells"]:
        return jnp.log(self._width()) + _log_mean_exp(self._slopes()) + self.bias[:-1]

    def _log_tail_mass(self) -> Float[Array, ""]:
        return self.bias[-1] + 0.5 * jnp.log(jnp.pi / self.sharpness) - jnp.log(2.0)


def _log_mean_exp(z: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """log of (e^z - 1)/z, the mean of e^{zu} over u in [0, 1], at any size of z."""
    size = jnp.abs(z)
    safe = jnp.where(size < 1e-4, 1.0, size)
    # (e^z - 1)/z = e^{max(z, 0)} (1 - e^{-|z|})/|z|.
    return jnp.maximum(z, 0.0) + jnp.where(size < 1e-4, -size / 2.0, jnp.log(-jnp.expm1(-safe) / safe))


def _inverse_tilted_uniform(z: Float[Array, ""], uniform: Float[Array, ""]) -> Float[Array, ""]:
    """Quantile of the density ∝ e^{zu} on [0, 1], for z of either sign counted from the heavier end."""
    size = jnp.abs(z)
    safe = jnp.where(size < 1e-4, 1.0, size)
    from_heavy_end = jnp.where(size < 1e-4, uniform, -jnp.log1p(uniform * jnp.expm1(-safe)) / safe)
    return jnp.where(z > 0.0, 1.0 - from_heavy_end, from_heavy_end)
