"""A Gaussian path on which every quantity is known, and models to run on it: what the core is held against."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from temperflow.models import Control, FourierFeatures, FreeEnergy, LearnedPotential, Model, Network
from temperflow.paths import Confinement, Continuum, TemperatureMap
from temperflow.proposals import JointDensity, Tempering
from temperflow.targets.base import Target


class GaussianPath(eqx.Module):
    r"""The path to $U_1 = \frac12 (x-m)^T P (x-m) + offset$ in closed form, at every t and β.

    With precision $\Lambda_t$ and mean $m_t$ of $\bar U_t$ the control is
    $\dot m_t - \frac12\Lambda_t^{-1}\dot\Lambda_t(x - m_t)$, whatever β. `stiffness` is that of
    an isotropic learned potential. The growing width is written out again here, not taken
    from the continuum that is under test.
    """

    continuum: Continuum
    mean: jax.Array
    precision: jax.Array
    offset: float
    stiffness: float = 0.0

    def log_density(self, x):
        centred = x - self.mean
        return -0.5 * jnp.dot(centred, self.precision @ centred) - self.offset

    @property
    def target(self):
        return Target(self.log_density, dim=self.continuum.dim)

    def moments(self, t):
        s, identity = self.continuum.schedule(t), jnp.eye(self.continuum.dim)
        source = (1.0 - s) / self.source_variance(t) + t * (1.0 - t) * self.stiffness
        precision = source * identity + s * self.precision
        return jnp.linalg.solve(precision, s * self.precision @ self.mean), precision

    def source_variance(self, t):
        widening = self.continuum.widening
        start = jnp.asarray(self.continuum.source_scale**2)
        if widening is None:
            return start
        w = widening.schedule(t)
        return start ** (1.0 - w) * jnp.asarray(widening.scale**2) ** w

    def free_energy(self, t, beta):
        s, d = self.continuum.schedule(t), self.continuum.dim
        mean, precision = self.moments(t)
        lowest = s * (self.offset + 0.5 * jnp.dot(self.mean, self.precision @ self.mean))
        lowest = lowest - 0.5 * jnp.dot(mean, precision @ mean)
        constant = (1.0 - s) * 0.5 * d * jnp.log(2.0 * jnp.pi * self.source_variance(t) / beta)
        log_volume = 0.5 * d * jnp.log(2.0 * jnp.pi / beta) - 0.5 * jnp.linalg.slogdet(precision)[1]
        return constant + beta * lowest - log_volume

    def velocity(self, t, x):
        (mean, precision), (mean_rate, precision_rate) = jax.jvp(self.moments, (t,), (jnp.ones_like(t),))
        return mean_rate - 0.5 * jnp.linalg.solve(precision, precision_rate @ (x - mean))

    def sample(self, key, t, beta):
        """One exact draw of x at t and β."""
        mean, precision = self.moments(t)
        noise = jax.random.normal(key, mean.shape)
        return mean + jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(precision).T, noise) / jnp.sqrt(beta)


class ExactControl(Control):
    network: None = None
    output_scale: float = 1.0
    path: GaussianPath | None = None

    def __call__(self, t, x, beta):
        return self.output_scale * self.path.velocity(t, x)


class ExactFreeEnergy(FreeEnergy):
    network: None = None
    path: GaussianPath | None = None

    def __call__(self, t, beta):
        return self.path.free_energy(t, beta)


class StiffPotential(LearnedPotential):
    network: None = None
    stiffness: float = 0.0

    def __call__(self, t, x):
        return 0.5 * self.stiffness * jnp.sum(x**2)


def gaussian_path(dim, source_scale, schedule, widening=None, stiffness=0.0, offset=0.3, shift=0.8):
    """A correlated target, narrower than the source in every direction and not far from it.

    A wider one would give the weights an infinite variance as soon as the transport is slow,
    and a standard error that means nothing.
    """
    noise = np.random.default_rng(dim).normal(size=(dim, dim))
    rotation = np.linalg.qr(noise)[0]
    precision = rotation @ np.diag(np.linspace(1.2, 2.5, dim)) @ rotation.T / source_scale**2
    mean = shift * source_scale * np.where(np.arange(dim) % 2 == 0, 1.0, -0.5) / np.sqrt(dim)
    return GaussianPath(
        Continuum(dim, source_scale, schedule, widening),
        jnp.asarray(mean, jnp.float32),
        jnp.asarray(precision, jnp.float32),
        offset,
        stiffness,
    )


def exact_model(path, speed=1.0):
    """μ and F that solve the continuity equation; `speed` zero leaves F and stops μ."""
    potential = StiffPotential(stiffness=path.stiffness) if path.stiffness else None
    return Model(ExactControl(output_scale=speed, path=path), ExactFreeEnergy(path=path), potential)


def random_model(key, dim, speed, height=3.0, tempered=True, spread=0.15):
    """Untrained networks, enlarged until transport and F matter."""
    keys = iter(jax.random.split(key, 9))

    def network(outputs, sees_x, sees_beta):
        return Network(
            next(keys),
            outputs,
            16,
            2,
            FourierFeatures(next(keys), dim, 4, spread, 2.0) if sees_x else None,
            FourierFeatures(next(keys), 1, 2, 1.0, 1.0),
            FourierFeatures(next(keys), 1, 2, 1.0, 1.0) if sees_beta else None,
        )

    free = network(1, False, tempered)
    last = free.mlp.layers[-1].weight
    free = eqx.tree_at(lambda n: n.mlp.layers[-1].weight, free, height * last)
    return Model(Control(network(dim, True, tempered), speed), FreeEnergy(free), None)


def tempering(hottest=0.2, bias=(0.0, 0.0, 0.0, 0.0, 0.0)):
    walls = Confinement(edge=2.0, sharpness=4.0, bias=jnp.asarray(bias, jnp.float32))
    return Tempering(TemperatureMap(hottest, 0.5, 1.5), walls)


def joint_of(path, tempered=True, **options):
    return JointDensity(path.continuum, tempering(**options) if tempered else None, mass=1.3, xi_mass=0.7)


def confinement_density(walls, count=40_001, reach=6.0):
    r"""A grid of ξ and $\psi'$ on it, in numpy and double precision, written out again."""
    xi = np.linspace(-walls.edge - reach, walls.edge + reach, count)
    bias = np.asarray(walls.bias, np.float64)
    inside = np.interp(np.abs(xi), np.linspace(0.0, walls.edge, bias.size), bias)
    return xi, inside - walls.sharpness * np.maximum(np.abs(xi) - walls.edge, 0.0) ** 2


def log_ratio(path, joint, model, t):
    r"""$\log Z_t/Z_0$ of the joint density, by quadrature over ξ."""
    t = jnp.asarray(t, jnp.float32)

    def gain(beta):
        return model.free_energy(t, beta) - path.free_energy(t, beta)

    if joint.tempering is None:
        return float(gain(jnp.asarray(1.0)))
    xi, log_walls = confinement_density(joint.tempering.confinement)
    betas = jax.vmap(joint.tempering.map)(jnp.asarray(xi, jnp.float32))
    gains = np.asarray(jax.jit(jax.vmap(gain))(betas), np.float64)
    return float(np.log(np.sum(np.exp(log_walls + gains))) - np.log(np.sum(np.exp(log_walls))))


def runner(count):
    """`run(proposal, key, model, steps, horizon)` -> walkers at the horizon, and no slice kept on the way.

    Compiled once for any number of steps, horizon, bias and parameters. Every runner has a cache
    of its own, so that a mutant made by replacing a function does not meet the healthy trace.
    """

    @eqx.filter_jit
    def run(proposal, key, model, steps, horizon):
        def keys_at(step):
            folded = jax.random.fold_in(key, step)
            return jax.vmap(lambda i: jax.random.fold_in(folded, i))(jnp.arange(count))

        def advance(step, walkers):
            h = horizon / steps.astype(horizon.dtype)
            t = h * step.astype(horizon.dtype)
            return jax.vmap(lambda k, w: proposal.step(k, t, h, w, model))(keys_at(step + 1), walkers)

        start = jax.vmap(proposal.init)(keys_at(0))
        return jax.lax.fori_loop(0, steps, advance, start)

    def call(proposal, key, model, steps, horizon=1.0):
        return run(proposal, key, model, jnp.asarray(steps), jnp.asarray(horizon))

    return call


def mean_weight(log_weight):
    """log mean e^A and its standard error, in double precision."""
    log_weight = np.asarray(log_weight, np.float64)
    weight = np.exp(log_weight - log_weight.max())
    error = weight.std(ddof=1) / weight.mean() / np.sqrt(weight.size)
    return float(np.log(weight.mean()) + log_weight.max()), float(error)
