"""The joint density of position and temperature, with momenta: the Hamiltonian of MATH.md section 3."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from temperflow.models import Model
from temperflow.paths import Cached, Confinement, Continuum, TemperatureMap


class Walker(eqx.Module):
    r"""One particle: where it is, how hot, how fast, and the exact log weight of its path so far.

    `status` counts the steps at which an energy or a coordinate was not finite. Such a walker
    stays where it last was, with weight zero, until resampling replaces it.

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.paths import Cached
    >>> zero = jnp.zeros(())
    >>> walker = Walker(jnp.zeros(2), jnp.array([3.0, 4.0]), zero, zero, Cached(zero, jnp.zeros(2)), zero, jnp.array(0))
    >>> crowd = jax.tree.map(lambda leaf: jnp.stack([leaf] * 5), walker)  # many are one with a leading axis
    >>> crowd.x.shape, crowd.log_weight.shape
    ((5, 2), (5,))
    """

    x: Float[Array, " dim"]
    momentum: Float[Array, " dim"]
    xi: Float[Array, ""]
    xi_momentum: Float[Array, ""]
    cached: Cached
    log_weight: Float[Array, ""]
    status: Int[Array, ""]


class Tempering(eqx.Module):
    r"""What makes temperature a coordinate: the map β(ξ) and the confinement of ξ.

    Args:
        map: $\beta(\xi)$.
        confinement: $\psi'(\xi)$.

    >>> import jax.numpy as jnp
    >>> from temperflow.paths import Confinement, TemperatureMap
    >>> heat = Tempering(TemperatureMap(0.2, 0.25, 1.9), Confinement(edge=2.0, sharpness=10.0, bias=jnp.zeros(9)))
    >>> walls = heat.confinement
    >>> cold = jnp.exp(walls.log_mass(heat.map.cold_edge) - walls.log_normaliser())
    >>> round(float(cold), 3)  # the share of cold walkers, 0.5 of 4 + sqrt(pi / 10)
    0.11
    """

    map: TemperatureMap
    confinement: Confinement

    @eqx.filter_jit
    def log_cold_share(self) -> Float[Array, ""]:
        r"""log of the share of walkers that are at temperature one where F is exact."""
        return self.confinement.log_mass(self.map.cold_edge) - self.confinement.log_normaliser()


class JointDensity(eqx.Module):
    r"""$H = U_t^b(x) - F_t(b) - \psi'(\xi) - \tfrac d2\log b + b|p|^2/2M_x + p_\xi^2/2M_\xi$, $b = \beta(\xi)$.

    MATH.md section 3. Without tempering ξ stays at zero, b is one, and what remains is the
    Hamiltonian of the untempered samplers.

    Args:
        continuum: $U_t^\beta$.
        tempering: map and confinement; None freezes the temperature at one.
        mass: $M_x$.
        xi_mass: $M_\xi$.
        paper_normaliser: leave out $-\tfrac d2\log b$, as the paper does; the dynamics and the
            weights then favour hot states by $b^{-d/2}$. For its reproduction only.

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.paths import Confinement, Continuum, Identity, TemperatureMap
    >>> walls = Confinement(edge=2.0, sharpness=10.0, bias=jnp.zeros(9))
    >>> joint = JointDensity(Continuum(2, 1.0, Identity()), Tempering(TemperatureMap(0.2, 0.25, 1.9), walls))
    >>> xi = jnp.array([0.1, 1.95])
    >>> [round(float(beta), 3) for beta in jax.vmap(joint.beta)(xi)]
    [1.0, 0.2]
    >>> joint.cold_log_weight(jnp.zeros(2), xi).tolist()  # only the cold one is a draw
    [0.0, -inf]
    """

    continuum: Continuum
    tempering: Tempering | None
    mass: float = 1.0
    xi_mass: float = 1.0
    paper_normaliser: bool = eqx.field(static=True, default=False)

    def beta(self, xi: Float[Array, ""]) -> Float[Array, ""]:
        """Inverse temperature at ξ."""
        return jnp.ones_like(xi) if self.tempering is None else self.tempering.map(xi)

    def potential(
        self,
        t: Float[Array, ""],
        x: Float[Array, " dim"],
        xi: Float[Array, ""],
        cached: Cached,
        model: Model,
    ) -> Float[Array, ""]:
        r"""$V = U_t^b - F_t(b) - \psi' - \tfrac d2\log b$: all of H but the kinetic energy."""
        b = self.beta(xi)
        value = self.continuum.energy(t, b, x, cached, model.potential) - model.free_energy(t, b)
        if self.tempering is not None:
            value = value - self.tempering.confinement(xi)
            if not self.paper_normaliser:
                value = value - 0.5 * self.continuum.dim * jnp.log(b)
        return value

    def forces(
        self, t: Float[Array, ""], walker: Walker, model: Model
    ) -> tuple[Float[Array, " dim"], Float[Array, ""]]:
        r"""$\nabla_x V$ and $\partial_\xi V$, from the cached target gradient."""
        return jax.grad(self.potential, argnums=(1, 2))(t, walker.x, walker.xi, walker.cached, model)

    def kinetic(self, walker: Walker) -> Float[Array, ""]:
        r"""$b|p|^2/2M_x + p_\xi^2/2M_\xi$."""
        b = self.beta(walker.xi)
        own = b * jnp.sum(walker.momentum**2) / (2.0 * self.mass)
        return own + walker.xi_momentum**2 / (2.0 * self.xi_mass)

    def hamiltonian(self, t: Float[Array, ""], walker: Walker, model: Model) -> Float[Array, ""]:
        """H at one walker."""
        return self.potential(t, walker.x, walker.xi, walker.cached, model) + self.kinetic(walker)

    def initial(
        self, key: PRNGKeyArray
    ) -> tuple[Float[Array, " dim"], Float[Array, " dim"], Float[Array, ""], Float[Array, ""]]:
        r"""Exact $(x, p, \xi, p_\xi)$ at t = 0 (MATH.md section 4).

        ξ from $e^{\psi'}$, then $x \sim N(0, \sigma_0^2/b)$, $p \sim N(0, M_x/b)$, $p_\xi \sim N(0, M_\xi)$.
        """
        for_xi, for_x, for_p, for_p_xi = jax.random.split(key, 4)
        if self.tempering is None:
            xi, xi_momentum = jnp.zeros(()), jnp.zeros(())
        else:
            xi = self.tempering.confinement.sample(for_xi)
            xi_momentum = jnp.sqrt(self.xi_mass) * jax.random.normal(for_p_xi)
        b = self.beta(xi)
        shape = (self.continuum.dim,)
        x = self.continuum.source_scale / jnp.sqrt(b) * jax.random.normal(for_x, shape)
        momentum = jnp.sqrt(self.mass / b) * jax.random.normal(for_p, shape)
        return x, momentum, xi, xi_momentum

    def log_evidence(
        self,
        log_weight: Float[Array, " n"],
        xi: Float[Array, " n"],
        log_resampled: Float[Array, ""],
        model: Model,
    ) -> Float[Array, ""]:
        r"""$\log Z_1$ from the weights of a run that has reached t = 1 (MATH.md section 5).

        $Z_1 = Z_0^\xi\,E[e^A 1_c]\,e^{-F_1(1)} / \int_{|\xi|\le\Delta} e^{\psi'}$, the last
        integral being $2\Delta$ without a bias. `log_resampled` is what resampling has already
        moved out of the weights.
        """
        one = jnp.ones((), log_weight.dtype)
        mean = jax.nn.logsumexp(self.cold_log_weight(log_weight, xi)) - jnp.log(log_weight.size)
        joint = mean + log_resampled - model.free_energy(one, one)
        if self.tempering is None:
            return joint
        walls = self.tempering.confinement
        return joint + walls.log_normaliser() - walls.log_mass(self.tempering.map.cold_edge)

    def cold_log_weight(self, log_weight: Float[Array, " n"], xi: Float[Array, " n"]) -> Float[Array, " n"]:
        """The weights as draws from temperature one: hot walkers count for nothing."""
        if self.tempering is None:
            return log_weight
        return jnp.where(self.tempering.map.is_cold(xi), log_weight, -jnp.inf)
