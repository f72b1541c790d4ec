"""Targets with several modes, the sampler that a good training leaves, and the ways in which training goes wrong."""

import dataclasses

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
    first = np.array([-3.2, 0.0, 3.2]) if three else np.array([-2.0, 2.0, 2.0])
    centres = np.stack([first, np.array([-2.0, 2.0, 2.0])]) + choice.normal(0.0, 0.15, (2, 1))
    widths = choice.uniform(0.78, 0.95, (2, 1)) * np.ones((2, COMPONENTS))
    shares = choice.uniform(0.8, 1.2, (2, COMPONENTS))
    merged = np.array([1.0, 0.5, 0.5])
    shares *= np.stack([np.ones(3) if three else merged, merged])
    return _product(centres, widths, shares / shares.sum(axis=1, keepdims=True))


def good(target, choice):
    """A control that is off by what training usually leaves: ESS about 0.98."""
    near = _product(
        np.asarray(target.centres) + choice.normal(0.0, 0.03, (2, 1)),
        np.asarray(target.widths) * np.exp(choice.normal(0.0, 0.02, (2, 1))),
        np.asarray(target.shares) * np.exp(choice.normal(0.0, 0.05, (2, COMPONENTS))),
    )
    return believing(target.target, near)


def half_missing(target, choice):
    """Nothing on the left of the first coordinate, and F as sure of itself as residuals alone would make it."""
    keep = np.asarray(target.centres)[0] > -1.0
    shares = np.asarray(target.shares).copy()
    shares[0] = np.where(keep, shares[0], 1e-30)
    return believing(target.target, dataclasses.replace(target, shares=jnp.asarray(shares)))


def outer_missing(target, choice):
    """Nothing on the outermost side of the last coordinate."""
    shares = np.asarray(target.shares).copy()
    shares[1, 1:] = 1e-30
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
    """Off by one standard deviation in both coordinates."""
    return believing(target.target, dataclasses.replace(target, centres=target.centres + 0.85))


def misweighted(target, choice):
    """One side of the first coordinate nine times too heavy."""
    factor = np.where(np.asarray(target.centres)[0] > 1.0, 9.0, 1.0)
    shares = np.asarray(target.shares).copy()
    shares[0] = shares[0] * factor / np.sum(shares[0] * factor)
    return believing(target.target, dataclasses.replace(target, shares=jnp.asarray(shares)))


def untrained(target, choice):
    """Networks as they are before the first epoch."""
    key = jax.random.key(int(choice.integers(2**31)))
    return sampler_of(target.target, exact_gaussian.random_model(key, 2, speed=1.0))


def idle(target, choice):
    """A control that does nothing: the source."""
    model = exact_gaussian.random_model(jax.random.key(0), 2, speed=0.0)
    assert type(model.control) is Control
    return sampler_of(target.target, model)


BAD = {
    "half the modes missing": half_missing,
    "an outer mode missing": outer_missing,
    "half as wide": scaled(0.6),
    "twice as wide": scaled(1.6),
    "too narrow modes": narrow,
    "shifted": shifted,
    "wrong weights": misweighted,
    "untrained": untrained,
    "idle": idle,
}


def _product(centres, widths, shares):
    return Product(*(jnp.asarray(part, jnp.float32) for part in (centres, widths, shares)))
