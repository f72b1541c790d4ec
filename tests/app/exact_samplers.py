"""Samplers that need no training: exact transport for products of mixtures, of the right target or of a wrong one.

On the line the control of a density path follows from its distribution function C_t:
μ = -∂_t C_t / p_t. The path between a Gaussian and a product of one-dimensional mixtures is a
product at every time and temperature, so its control acts on each coordinate alone. Given the
right mixture this is a sampler as good as tables of it are; given another one, it is a sampler
that training led astray in a known way.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from temperflow.models import Control, FreeEnergy, Model
from temperflow.paths import Confinement, Continuum, Identity, TemperatureMap
from temperflow.proposals import JointDensity, Langevin, Rates, Splitting, Tempering
from temperflow.sampling import RungeKuttaFlow, Sampler
from temperflow.targets import Target

SOURCE, HOTTEST, REACH = 2.0, 0.3, 16.0
TIMES, TEMPERATURES, PLACES = 129, 9, 1601
# Beyond this share of the highest density the control goes on as a straight line.
SMALLEST = 1e-12


class Product(eqx.Module):
    """Mixtures, one a coordinate: centres, widths and shares of shape (dim, components)."""

    centres: jax.Array
    widths: jax.Array
    shares: jax.Array

    def by_coordinate(self, x):
        squares = ((x[:, None] - self.centres) / self.widths) ** 2
        parts = jnp.log(self.shares) - jnp.log(self.widths) - 0.5 * squares - 0.5 * np.log(2 * np.pi).item()
        return jax.nn.logsumexp(parts, axis=1)

    def log_density(self, x):
        return jnp.sum(self.by_coordinate(x))

    @property
    def target(self):
        return Target(self.log_density, dim=self.centres.shape[0], source_scale=SOURCE)


class Tables(eqx.Module):
    """μ on (coordinate, β, t, x) and F and its rate on (coordinate, β, t)."""

    velocity: jax.Array
    free_energy: jax.Array
    rate: jax.Array

    def at(self, table, t, beta, x=None):
        place = [(beta - HOTTEST) / (1.0 - HOTTEST) * (TEMPERATURES - 1), t * (TIMES - 1)]
        if x is not None:
            place.append((x + REACH) / (2.0 * REACH) * (PLACES - 1))
        return jax.scipy.ndimage.map_coordinates(table, place, order=1, mode="nearest")


class TabledControl(Control):
    network: None = None
    output_scale: float = 1.0
    tables: Tables | None = None

    def __call__(self, t, x, beta):
        def along(table, x):
            return self.tables.at(table, t, beta, x)

        return self.output_scale * jax.vmap(along)(self.tables.velocity, x)


class TabledFreeEnergy(FreeEnergy):
    network: None = None
    tables: Tables | None = None

    def __call__(self, t, beta):
        return jnp.sum(jax.vmap(lambda table: self.tables.at(table, t, beta))(self.tables.free_energy))

    def rate(self, t, beta):
        return jnp.sum(jax.vmap(lambda table: self.tables.at(table, t, beta))(self.tables.rate))


@eqx.filter_jit
def _energies(product):
    """U and ∂_t U on the whole grid, coordinate by coordinate."""
    times = jnp.linspace(0.0, 1.0, TIMES)
    betas = jnp.linspace(HOTTEST, 1.0, TEMPERATURES)
    places = jnp.linspace(-REACH, REACH, PLACES)
    dim = product.centres.shape[0]
    own = -jax.vmap(lambda x: product.by_coordinate(jnp.full(dim, x)))(places).T

    def at(beta, t, x, energy):
        def of(t):
            s = t
            cold = (1.0 - s) * x**2 / (2.0 * SOURCE**2) + s * energy
            return beta * cold + (1.0 - s) * 0.5 * jnp.log(2.0 * jnp.pi * SOURCE**2 / beta)

        return jax.jvp(of, (t,), (jnp.ones_like(t),))

    over_places = jax.vmap(at, (None, None, 0, 0))
    over_times = jax.vmap(over_places, (None, 0, None, None))
    over_betas = jax.vmap(over_times, (0, None, None, None))
    return jax.vmap(over_betas, (None, None, None, 0))(betas, times, places, own)


def tables_of(product):
    """The exact transport and free energy of the path to this product, in double precision."""
    energy, energy_rate = (np.asarray(part, np.float64) for part in _energies(product))
    h = 2.0 * REACH / (PLACES - 1)
    lowest = energy.min(axis=-1, keepdims=True)
    mass = np.exp(lowest - energy) * h
    total = mass.sum(axis=-1, keepdims=True)
    share = mass / total
    rate = np.sum(share * energy_rate, axis=-1)
    moved = share * (rate[..., None] - energy_rate)
    # Cumulated from the nearer end, so that tails do not drown in rounding; half of the own cell.
    left = np.cumsum(moved, axis=-1) - 0.5 * moved
    right = -(np.cumsum(moved[..., ::-1], axis=-1)[..., ::-1] - 0.5 * moved)
    below = np.cumsum(share, axis=-1) < 0.5
    change = np.where(below, left, right)
    with np.errstate(divide="ignore", invalid="ignore"):
        velocity = -h * change / share
    velocity = _extended(velocity, share > SMALLEST * share.max(axis=-1, keepdims=True))
    free_energy = (lowest - np.log(total))[..., 0]
    return Tables(*(jnp.asarray(part, jnp.float32) for part in (velocity, free_energy, rate)))


def _extended(velocity, known):
    """Straight lines beyond the places where the density is not too small to divide by."""
    flat, sure = velocity.reshape(-1, PLACES), known.reshape(-1, PLACES)
    for row, inside in zip(flat, sure, strict=True):
        where = np.flatnonzero(inside)
        first, last = where[0], where[-1]
        away = np.arange(PLACES)
        row[:first] = (row[first] + (row[first + 1] - row[first]) * (away - first))[:first]
        row[last + 1 :] = (row[last] + (row[last] - row[last - 1]) * (away - last))[last + 1 :]
    return flat.reshape(velocity.shape)


def sampler_of(target, model, tempered=True, steps=100):
    """As a run would build it, around a model."""
    walls = Confinement(2.0, 10.0, jnp.zeros(5))
    tempering = Tempering(TemperatureMap(HOTTEST, 0.25, 1.9), walls) if tempered else None
    joint = JointDensity(Continuum(target.dim, SOURCE, Identity()), tempering)
    proposal = Langevin(joint, target, Rates(20.0, 2.0, 20.0, 2.0), Splitting())
    return Sampler(model, proposal, RungeKuttaFlow(48), steps, 16, 0.5)


def believing(target, product, tempered=True):
    """The sampler of `target` whose control and free energy are those of `product`."""
    tables = tables_of(product)
    return sampler_of(target, Model(TabledControl(tables=tables), TabledFreeEnergy(tables=tables), None), tempered)
