"""Targets with several modes, the sampler that a good training leaves, and the ways in which training goes wrong."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from exact_samplers import Product, believing, sampler_of

import exact_gaussian
from temperflow.models import Control

COMPONENTS = 3


def product(choice):
    """Two coordinates: two modes along the first or three, two along the second; four or six in all."""
    three = choice.random() < 0.5
    pair = np.array([-2.0, 2.0, 2.0])
    return _drawn(choice, np.stack([np.array([-3.2, 0.0, 3.2]) if three else pair, pair]))


def grid(choice):
    """Nine modes in the plane, three by three."""
    return _drawn(choice, np.tile([-3.2, 0.0, 3.2], (2, 1)))


def deep(choice):
    """Two modes along each of six coordinates: sixty-four."""
    return _drawn(choice, np.tile([-2.0, 2.0, 2.0], (6, 1)))


def far(choice):
    """Nine modes so far apart that a start of the source's width finds the middle one and no other."""
    return _drawn(choice, np.tile([-11.0, 0.0, 11.0], (2, 1)))


def good(target, choice):
    """A control that is off by what training usually leaves: ESS about 0.98."""
    return _near(target, choice, 1.0)


def fair(target, choice):
    """Off by twice and a half of that: ESS about 0.9, which is good still."""
    return _near(target, choice, 2.5)


def _near(target, choice, size):
    dim = target.centres.shape[0]
    # The error of a training does not grow with the number of coordinates; that of each shrinks.
    size = size * (2.0 / dim) ** 0.5
    near = _product(
        np.asarray(target.centres) + size * choice.normal(0.0, 0.03, (dim, 1)),
        np.asarray(target.widths) * np.exp(size * choice.normal(0.0, 0.02, (dim, 1))),
        np.asarray(target.shares) * np.exp(size * choice.normal(0.0, 0.05, (dim, COMPONENTS))),
    )
    return believing(target.target, near)


def half_missing(target, choice):
    """Nothing on the left of the first coordinate (a half, or a third of three), and F as sure of itself as ever."""
    keep = np.asarray(target.centres)[0] > -1.0
    shares = np.asarray(target.shares).copy()
    shares[0] = np.where(keep, shares[0], 1e-30)
    return believing(target.target, dataclasses.replace(target, shares=jnp.asarray(shares)))


def outer_missing(target, choice):
    """Nothing on the outermost side of the last coordinate."""
    shares = np.asarray(target.shares).copy()
    shares[-1, 1:] = 1e-30
    return believing(target.target, dataclasses.replace(target, shares=jnp.asarray(shares)))


def scaled(factor):
    """Everything farther out and wider by this factor."""

    def make(target, choice):
        wrong = dataclasses.replace(target, centres=factor * target.centres, widths=factor * target.widths)
        return believing(target.target, wrong)

    return make


def narrow(target, choice):
    """Every mode in its place at six tenths of its width."""
    return believing(target.target, dataclasses.replace(target, widths=0.6 * target.widths))


def shifted(target, choice):
    """Off by one standard deviation in every coordinate."""
    return believing(target.target, dataclasses.replace(target, centres=target.centres + 0.85))


def misweighted(target, choice):
    """One side of the first coordinate nine times too heavy."""
    factor = np.where(np.asarray(target.centres)[0] > 1.0, 9.0, 1.0)
    shares = np.asarray(target.shares).copy()
    shares[0] = shares[0] * factor / np.sum(shares[0] * factor)
    return believing(target.target, dataclasses.replace(target, shares=jnp.asarray(shares)))


def nearest(target):
    """The middle mode of `far` and no other, with the mass it has there."""
    shares = np.full(target.shares.shape, 1e-30)
    shares[:, 1] = np.asarray(target.shares)[:, 1]
    return dataclasses.replace(target, shares=jnp.asarray(shares, jnp.float32))


def nearest_only(target, choice):
    """All that such a sampler says of itself is in order."""
    return believing(target.target, nearest(target))


def deluded(target, choice):
    """A right control with an F that has drifted by a nat and a half."""
    whole = believing(target.target, target)
    tables = whole.model.free_energy.tables
    drift = jnp.linspace(0.0, 1.5, tables.free_energy.shape[-1]) / target.centres.shape[0]
    tables = dataclasses.replace(
        tables,
        free_energy=tables.free_energy + drift[None, None, :],
        rate=tables.rate + 1.5 / target.centres.shape[0],
    )
    return eqx.tree_at(lambda sampler: sampler.model.free_energy.tables, whole, tables)


def untrained(target, choice):
    """Networks as they are before the first epoch."""
    key = jax.random.key(int(choice.integers(2**31)))
    return sampler_of(target.target, exact_gaussian.random_model(key, target.centres.shape[0], speed=1.0))


def idle(target, choice):
    """A control that does nothing: the source."""
    model = exact_gaussian.random_model(jax.random.key(0), target.centres.shape[0], speed=0.0)
    assert type(model.control) is Control
    return sampler_of(target.target, model)


FAMILIES = {"two by two or three": product, "three by three": grid, "six dimensions": deep}

GOOD = {"good": good, "fair": fair}

BAD = {
    "half the modes missing": half_missing,
    "an outer mode missing": outer_missing,
    "half as wide": scaled(0.6),
    "twice as wide": scaled(1.6),
    "too narrow modes": narrow,
    "shifted": shifted,
    "wrong weights": misweighted,
    "wrong free energy": deluded,
    "untrained": untrained,
    "idle": idle,
}


def _drawn(choice, centres):
    """Two modes that share a place are one mode: half a share each."""
    dim = len(centres)
    together = centres[:, 1] == centres[:, 2]
    shares = choice.uniform(0.8, 1.2, (dim, COMPONENTS))
    shares *= np.where(together[:, None], np.array([1.0, 0.5, 0.5]), 1.0)
    widths = choice.uniform(0.78, 0.95, (dim, 1)) * np.ones((dim, COMPONENTS))
    centres = centres + choice.normal(0.0, 0.15, (dim, 1))
    return _product(centres, widths, shares / shares.sum(axis=1, keepdims=True))


def _product(centres, widths, shares):
    return Product(*(jnp.asarray(part, jnp.float32) for part in (centres, widths, shares)))
