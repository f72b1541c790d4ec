"""The continuum of densities U_t^β between source and target, at every time and temperature."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from temperflow.paths.schedules import Schedule

Potential = Callable[[Float[Array, ""], Float[Array, " dim"]], Float[Array, ""]]


class Cached(eqx.Module):
    r"""The pair $(U_1, \nabla U_1)$ at one point: all that a path ever sees of the target.

    Leading axes where points are stored together.

    >>> import jax, jax.numpy as jnp
    >>> cached = Cached(jnp.array(2.0), jnp.array([1.0, -1.0]))
    >>> x = jnp.zeros(2)
    >>> float(cached.at(x)), jax.grad(cached.at)(x).tolist()
    (2.0, [1.0, -1.0])
    """

    energy: Float[Array, "*batch"]
    gradient: Float[Array, "*batch dim"]

    def at(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """$U_1$ as a function of x that is right in value and first derivative where it was cached.

        So autodiff with respect to x passes through a path without calling the target again.
        """
        return self.energy + jnp.dot(self.gradient, x - jax.lax.stop_gradient(x))


class Widening(eqx.Module):
    r"""A source that grows on the way: $\sigma_t = \sigma_0 (R/\sigma_0)^{w(t)}$.

    MATH.md section 1. Widen before the target splits the modes apart, or the outer ones could
    be reached by teleportation only. Where w goes on past 1 the envelope goes on fading, which
    hands the mass over to the tempered target itself before its modes part.

    Args:
        scale: $R$, the size of the domain.
        schedule: $w$.

    >>> import jax.numpy as jnp
    >>> from temperflow.paths import Identity
    >>> half_way = Widening(scale=4.0, schedule=Identity()).log_growth(jnp.array(0.5), source_scale=1.0)
    >>> round(float(jnp.exp(half_way)), 4)  # the geometric mean of the two widths
    2.0
    """

    scale: float
    schedule: Schedule

    def log_growth(self, t: Float[Array, ""], source_scale: float) -> Float[Array, ""]:
        r"""$\log\sigma_t/\sigma_0$."""
        return jnp.log(jnp.asarray(self.scale / source_scale, t.dtype)) * self.schedule(t)


class Expansion(eqx.Module):
    r"""$d\log\sigma_t/dt$: what carries a widening source exactly, $\mu = x\,d\log\sigma_t/dt$ at any temperature.

    Args:
        source_scale: $\sigma_0$.
        widening: how it grows.

    >>> import jax.numpy as jnp
    >>> from temperflow.paths import Identity
    >>> rate = Expansion(source_scale=1.0, widening=Widening(scale=jnp.e, schedule=Identity()))
    >>> round(float(rate(jnp.array(0.5))), 4)
    1.0
    """

    source_scale: float
    widening: Widening

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        return jax.jvp(lambda t: self.widening.log_growth(t, self.source_scale), (t,), (jnp.ones_like(t),))[1]


class Continuum(eqx.Module):
    r"""$U_t^\beta(x) = \beta\,\bar U_t(x) + c_t(\beta)$ (MATH.md section 1), where

    $\bar U_t(x) = e_t\,|x|^2/2\sigma_t^2 + s\,U_1(x) + t(1-t)\,U^\theta_t(x)$,
    $c_t(\beta) = e_t\,\tfrac d2\log(2\pi\sigma_t^2/\beta)$ and $e_t = (1-s)^n$,

    so $\pi_0^\beta = N(0, \sigma_0^2/\beta)$ is normalised and $F_1(1) = -\log Z$. With the
    source widening, its constant follows it: F stays zero for as long as only the width moves.

    The envelope $e_t$ of MATH.md has n = 1. It then outlives the modes' parting and goes on
    shifting their weights by $e^{-(1-s)|m|^2/2\sigma_t^2}$, which no control can follow once they
    are apart. A larger n hands the confinement over to the tempered target while its modes are
    still one.

    Args:
        dim: $d$.
        source_scale: $\sigma_0$.
        schedule: $s(t)$.
        widening: how $\sigma_t$ grows; None keeps $\sigma_0$.
        fading: $n \ge 1$.

    >>> import jax.numpy as jnp
    >>> from temperflow.paths import Identity
    >>> path = Continuum(dim=2, source_scale=2.0, schedule=Identity())
    >>> cached = Cached(jnp.array(3.0), jnp.zeros(2))
    >>> one = jnp.array(1.0)
    >>> float(path.energy(one, 0.5 * one, jnp.zeros(2), cached))
    1.5
    """

    dim: int = eqx.field(static=True)
    source_scale: float
    schedule: Schedule
    widening: Widening | None = None
    fading: float = 1.0

    def __check_init__(self):
        if not self.fading >= 1.0:
            raise ValueError(f"fading is an exponent of at least 1; got {self.fading}")

    def energy(
        self,
        t: Float[Array, ""],
        beta: Float[Array, ""],
        x: Float[Array, " dim"],
        cached: Cached,
        potential: Potential | None = None,
    ) -> Float[Array, ""]:
        s = self.schedule(t)
        log_variance = self.log_source_variance(t)
        # Rounding may lift s a little over one. Not a maximum, whose derivative is halved at the end
        # itself, where a whole slice of every rollout stands: what is below zero comes off as a constant.
        rest = 1.0 - s
        envelope = (rest - jax.lax.stop_gradient(jnp.minimum(rest, 0.0))) ** self.fading
        cold = envelope * jnp.sum(x**2) * jnp.exp(-log_variance) / 2.0 + s * cached.at(x)
        if potential is not None:
            cold = cold + t * (1.0 - t) * potential(t, x)
        constant = 0.5 * self.dim * (jnp.log(2.0 * jnp.pi / beta) + log_variance)
        return beta * cold + envelope * constant

    def log_source(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        r"""$\log N(x; 0, \sigma_0^2 I)$, where a flow starts."""
        variance = jnp.asarray(self.source_scale, x.dtype) ** 2
        return -0.5 * (jnp.sum(x**2) / variance + self.dim * jnp.log(2.0 * jnp.pi * variance))

    def log_source_variance(self, t: Float[Array, ""]) -> Float[Array, ""]:
        r"""$\log\sigma_t^2$."""
        start = 2.0 * jnp.log(jnp.asarray(self.source_scale, t.dtype))
        if self.widening is None:
            return start
        return start + 2.0 * self.widening.log_growth(t, self.source_scale)
