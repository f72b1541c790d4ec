"""The geometric path from a Gaussian to the target, and points that remember what was paid for."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.targets.base import Target


class Point(eqx.Module):
    r"""A position with its cached target call.

    The path's energy and gradient at every $s$ follow from the cached pair, so a point that swaps
    levels, is resampled or is reweighted costs no further call.

    Args:
        x: the position.
        energy: $U_1(x)$; plus infinity where the target gave no finite number.
        gradient: $\nabla U_1(x)$; zero where it is not finite, or where nobody asked for it.
    """

    x: Float[Array, " dim"]
    energy: Float[Array, ""]
    gradient: Float[Array, " dim"]


class GeometricPath(eqx.Module):
    r"""$U_s = (1-s)\,U_0 + s\,U_1$, $\pi_0 = N(0, \sigma_0^2 I)$ normalised (MATH.md section 1).

    With $V = U_1 - U_0$ this is $U_0 + sV$, hence $Z_0 = 1$ and $Z_1 = Z$.

    Where $U_1$ is infinite or not a number the density is zero for every $s > 0$. That includes
    $U_1 = -\infty$: a single point carries no mass, and treating it as empty lets no chain stick.

    Args:
        target: supplies $U_1$.
        source_scale: $\sigma_0$.

    >>> target = Target(lambda x: -0.5 * jnp.sum((x - 1.0) ** 2), dim=2)
    >>> path = GeometricPath(target, jnp.array(1.0))
    >>> point = path.evaluate(jnp.zeros(2), with_gradient=True)
    >>> round(float(path.potential(point)), 4)  # 1 - log(2 pi)
    -0.8379
    >>> path.gradient(jnp.array(0.5), point).tolist()
    [-0.5, -0.5]
    """

    target: Target
    source_scale: Float[Array, ""]

    def draw(self, key: PRNGKeyArray) -> Float[Array, " dim"]:
        """An exact draw of the source."""
        return self.source_scale * jax.random.normal(key, (self.target.dim,))

    def evaluate(self, x: Float[Array, " dim"], *, with_gradient: bool) -> Point:
        """One target call; the gradient comes with it only if asked for."""
        if with_gradient:
            energy, gradient = self.target.energy_and_grad(x)
        else:
            with jax.default_matmul_precision("float32"):
                energy, gradient = self.target.energy(x), jnp.zeros_like(x)
        energy, gradient = energy.astype(x.dtype), gradient.astype(x.dtype)
        # Any fixed function of x may stand in for the gradient: a leapfrog step stays reversible
        # and volume-preserving, and the Metropolis test sees the true energy.
        return Point(
            x,
            jnp.where(jnp.isfinite(energy), energy, jnp.inf),
            jnp.where(jnp.isfinite(gradient), gradient, 0.0),
        )

    def source_energy(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """$U_0(x)$, its normalising constant included."""
        half_log_two_pi = 0.5 * math.log(2 * math.pi)
        constant = x.size * (jnp.log(self.source_scale) + half_log_two_pi)
        return 0.5 * jnp.sum((x / self.source_scale) ** 2) + constant

    def potential(self, point: Point) -> Float[Array, ""]:
        r"""$V = U_1 - U_0 = \partial_s U_s$: what swaps and weights are made of."""
        return point.energy - self.source_energy(point.x)

    def energy(self, s: Float[Array, ""], point: Point) -> Float[Array, ""]:
        """$U_s$; at s = 0 the target has no say, even where it is infinite."""
        source = self.source_energy(point.x)
        return jnp.where(s > 0, source + s * self.potential(point), source)

    def gradient(self, s: Float[Array, ""], point: Point) -> Float[Array, " dim"]:
        r"""$\nabla U_s$."""
        return (1 - s) * point.x / self.source_scale**2 + s * point.gradient


def geometric_path(target: Target, source_scale: float | None) -> GeometricPath:
    """The path from `source_scale`, or from the target's own where None is given."""
    scale = target.source_scale if source_scale is None else source_scale
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"source_scale is {scale!r}; expected a positive finite number.")
    return GeometricPath(target, jnp.asarray(scale, jnp.zeros(()).dtype))
