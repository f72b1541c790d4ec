"""One step of underdamped Langevin dynamics: with exact weights, or the paper's way."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.models import Model
from temperflow.paths import Cached
from temperflow.proposals.joint import JointDensity, Walker
from temperflow.proposals.work import continuous_work, transported


class Rates(eqx.Module):
    r"""Diagonal scale γ and damping ε of position and temperature (MATH.md section 4).

    Args:
        scale: $\gamma_x$.
        damping: $\epsilon_x$.
        xi_scale: $\gamma_\xi$.
        xi_damping: $\epsilon_\xi$.

    >>> import math
    >>> rates, step, mass = Rates(scale=50.0, damping=2.0), 0.004, 1.0
    >>> round(math.exp(-rates.scale * rates.damping * step / mass), 2)  # what a cold momentum keeps over a step
    0.67
    """

    scale: float = 50.0
    damping: float = 2.0
    xi_scale: float = 5.0
    xi_damping: float = 2.0


class Dynamics(eqx.Module):
    """What an integrator discretises: the Hamiltonian, the rates, and a look at the target."""

    joint: JointDensity
    rates: Rates
    look: Callable[[Float[Array, " dim"]], Cached]


class Integrator(eqx.Module):
    """One step of the dynamics together with its contribution to the log weight."""

    @property
    @abc.abstractmethod
    def calls_per_step(self) -> int:
        """Target evaluations a step makes."""

    @abc.abstractmethod
    def move(
        self,
        key: PRNGKeyArray,
        t: Float[Array, ""],
        h: Float[Array, ""],
        walker: Walker,
        model: Model,
        dynamics: Dynamics,
    ) -> Walker:
        """From t to t + h."""


class Splitting(Integrator):
    r"""Transport, then $t \leftarrow t+h$, then $B(h/2)A(h/2)C(h/2)O(h)C(h/2)A(h/2)B(h/2)$.

    MATH.md section 5. A, B and C preserve volume and reverse under momentum flip, O is in
    detailed balance with its Gaussian, so

    $A = \sum\log|\det(I + h\,\partial_x\mu)| + \sum\Delta K_O - [H_T(z_T) - H_0(z_0)]$

    gives $E[e^A] = Z_T/Z_0$ at any step size.

    >>> Splitting().calls_per_step
    2
    """

    @property
    def calls_per_step(self) -> int:
        return 2

    def move(
        self,
        key: PRNGKeyArray,
        t: Float[Array, ""],
        h: Float[Array, ""],
        walker: Walker,
        model: Model,
        dynamics: Dynamics,
    ) -> Walker:
        joint, after, half = dynamics.joint, t + h, h / 2.0
        before = joint.hamiltonian(t, walker, model)
        x, log_det = transported(t, h, walker, model, joint)
        walker = _look_from(x, walker, dynamics)
        walker = _kick(after, half, walker, model, dynamics)
        walker = _drift(half, walker, dynamics)
        walker = _drift_temperature(half, walker, dynamics)
        walker, heat = _refresh(key, h, walker, dynamics)
        walker = _drift_temperature(half, walker, dynamics)
        walker = _drift(half, walker, dynamics)
        walker = _look_from(walker.x, walker, dynamics)
        walker = _kick(after, half, walker, model, dynamics)
        gain = log_det + heat - (joint.hamiltonian(after, walker, model) - before)
        return eqx.tree_at(lambda w: w.log_weight, walker, walker.log_weight + gain)


def _look_from(x: Float[Array, " dim"], walker: Walker, dynamics: Dynamics) -> Walker:
    return eqx.tree_at(lambda w: (w.x, w.cached), walker, (x, dynamics.look(x)))


def _kick(t: Float[Array, ""], h: Float[Array, ""], walker: Walker, model: Model, dynamics: Dynamics) -> Walker:
    """B: both momenta feel the potential V."""
    force, xi_force = dynamics.joint.forces(t, walker, model)
    momentum = walker.momentum - h * dynamics.rates.scale * force
    if dynamics.joint.tempering is None:
        return eqx.tree_at(lambda w: w.momentum, walker, momentum)
    xi_momentum = walker.xi_momentum - h * dynamics.rates.xi_scale * xi_force
    return eqx.tree_at(lambda w: (w.momentum, w.xi_momentum), walker, (momentum, xi_momentum))


def _drift(h: Float[Array, ""], walker: Walker, dynamics: Dynamics) -> Walker:
    """A: position moves, and the kinetic energy's dependence on temperature pushes p_ξ."""
    joint, rates = dynamics.joint, dynamics.rates
    b = joint.beta(walker.xi)
    x = walker.x + h * rates.scale * b * walker.momentum / joint.mass
    if joint.tempering is None:
        return eqx.tree_at(lambda w: w.x, walker, x)
    push = jax.grad(joint.beta)(walker.xi) * jnp.sum(walker.momentum**2) / (2.0 * joint.mass)
    xi_momentum = walker.xi_momentum - h * rates.xi_scale * push
    return eqx.tree_at(lambda w: (w.x, w.xi_momentum), walker, (x, xi_momentum))


def _drift_temperature(h: Float[Array, ""], walker: Walker, dynamics: Dynamics) -> Walker:
    """C: ξ moves."""
    if dynamics.joint.tempering is None:
        return walker
    speed = dynamics.rates.xi_scale * walker.xi_momentum / dynamics.joint.xi_mass
    return eqx.tree_at(lambda w: w.xi, walker, walker.xi + h * speed)


def _refresh(
    key: PRNGKeyArray, h: Float[Array, ""], walker: Walker, dynamics: Dynamics
) -> tuple[Walker, Float[Array, ""]]:
    """O: momenta forget a little. Also the heat: kinetic energy after minus before."""
    joint, rates = dynamics.joint, dynamics.rates
    b = joint.beta(walker.xi)
    for_p, for_p_xi = jax.random.split(key)

    def mix(key, momentum, variance, rate):
        kept = jnp.exp(-rate * h / variance)
        spread = jnp.sqrt(-jnp.expm1(-2.0 * rate * h / variance) * variance)
        return kept * momentum + spread * jax.random.normal(key, momentum.shape)

    momentum = mix(for_p, walker.momentum, joint.mass / b, rates.scale * rates.damping)
    refreshed = eqx.tree_at(lambda w: w.momentum, walker, momentum)
    if joint.tempering is not None:
        xi_momentum = mix(for_p_xi, walker.xi_momentum, joint.xi_mass, rates.xi_scale * rates.xi_damping)
        refreshed = eqx.tree_at(lambda w: w.xi_momentum, refreshed, xi_momentum)
    return refreshed, joint.kinetic(refreshed) - joint.kinetic(walker)


class EulerMaruyama(Integrator):
    r"""The paper's scheme: everything from the step's left end.

    $A \mathrel{+}= h[\nabla\cdot\mu - \partial_t\tilde U - \mu\cdot\nabla\tilde U]$,
    MATH.md section 5. The weights carry a bias of order h, and on stiff targets the scheme blows
    up; it is here to reproduce the paper.

    >>> EulerMaruyama().calls_per_step
    1
    """

    @property
    def calls_per_step(self) -> int:
        return 1

    def move(
        self,
        key: PRNGKeyArray,
        t: Float[Array, ""],
        h: Float[Array, ""],
        walker: Walker,
        model: Model,
        dynamics: Dynamics,
    ) -> Walker:
        joint, rates = dynamics.joint, dynamics.rates
        for_p, for_p_xi = jax.random.split(key)
        velocity, work = continuous_work(t, walker, model, joint)
        force, xi_force = joint.forces(t, walker, model)
        speed = joint.beta(walker.xi) * walker.momentum / joint.mass
        x = walker.x + h * (velocity + rates.scale * speed)
        noise = jnp.sqrt(2.0 * rates.scale * rates.damping * h)
        momentum = walker.momentum - h * rates.scale * (force + rates.damping * speed)
        momentum = momentum + noise * jax.random.normal(for_p, momentum.shape)
        xi, xi_momentum = walker.xi, walker.xi_momentum
        if joint.tempering is not None:
            kinetic_slope = jnp.sum(walker.momentum**2) / (2.0 * joint.mass)
            xi_force = xi_force + jax.grad(joint.beta)(xi) * kinetic_slope
            xi_speed = xi_momentum / joint.xi_mass
            xi = xi + h * rates.xi_scale * xi_speed
            xi_noise = jnp.sqrt(2.0 * rates.xi_scale * rates.xi_damping * h)
            xi_momentum = xi_momentum - h * rates.xi_scale * (xi_force + rates.xi_damping * xi_speed)
            xi_momentum = xi_momentum + xi_noise * jax.random.normal(for_p_xi)
        cached, log_weight = dynamics.look(x), walker.log_weight + h * work
        return Walker(x, momentum, xi, xi_momentum, cached, log_weight, walker.status)
