"""The two identities that path weights satisfy at any step size, tried on this machine (MATH.md section 5)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from temperflow.models import Control, FourierFeatures, FreeEnergy, Model, Network
from temperflow.paths import Confinement, Continuum, Tabulated, TemperatureMap
from temperflow.proposals import (
    JointDensity,
    Langevin,
    Overdamped,
    Proposal,
    Rates,
    Splitting,
    Tempering,
    Transport,
    Walker,
)
from temperflow.targets import Target
from temperflow.targets.gaussian import CorrelatedGaussian

Column = NDArray[np.floating]

WALKERS, STEPS = 8192, 10
# A target narrower than the source in every direction: the weights keep a variance.
SOURCE_SCALE, MEAN = 1.0, np.array([0.6, -0.3])
WHITENER = np.array([[1.1, 0.2], [-0.3, 1.4]])
SPEED = 6.0  # of the untrained control: it moves walkers by about a width
STANDING = 0.6  # how far along the path the invariance is looked at
_SCHEDULE = jnp.array([0.0, 0.4, 1.0])


def examined() -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """For every proposal the error of its mean weight, and the worst score of its invariance."""
    weights, invariance = {}, {}
    model = eqx.filter_jit(_untrained_model)()
    # μ = 0 and F = 0: a model with nothing in it.
    empty = jax.tree.map(lambda leaf: jnp.zeros_like(leaf) if eqx.is_array(leaf) else leaf, model)
    for tempered in (False, True):
        moving, standing = _patients(_SCHEDULE, tempered), _patients(jnp.array([STANDING] * 3), tempered)
        one = next(iter(moving.values()))
        start, exact = _started(one, jax.random.key(1)), _log_ratio(one.joint, model)
        still = _standing(one, start)
        for name in moving:
            run = _runner()  # one compilation serves both
            end = run(moving[name], model, jax.random.key(2), start)
            weights[name] = _against(np.asarray(end.log_weight, np.float64), exact)
            if name != "transport":  # which stands still without a control: nothing to see
                moved = run(standing[name], empty, jax.random.key(4), still)
                invariance[name] = _worst_score(one.joint, still, moved)
    return weights, invariance


def _patients(schedule: Array, tempered: bool) -> dict[str, Proposal]:
    """Every proposal with exact weights, along a path with this schedule."""
    bias = jnp.array([0.0, 0.6, -0.4, 0.5])
    tempering = Tempering(TemperatureMap(0.25, 0.5, 1.5), Confinement(2.0, 4.0, bias)) if tempered else None
    path = Continuum(2, SOURCE_SCALE, Tabulated(jnp.array([0.0, 0.5, 1.0]), schedule))
    joint = JointDensity(path, tempering, mass=1.3, xi_mass=0.7)
    gaussian = CorrelatedGaussian(*(jnp.asarray(v, jnp.float32) for v in (MEAN, WHITENER, np.linalg.inv(WHITENER))))
    target = Target(gaussian.log_density, dim=2)
    langevin = Langevin(joint, target, Rates(1.0, 1.5, 1.5, 1.0), Splitting())
    if tempered:
        return {"tempered": langevin}
    return {
        "transport": Transport(joint, target),
        "overdamped": Overdamped(joint, target, diffusion=0.7),
        "underdamped": langevin,
    }


def _untrained_model() -> Model:
    """Random networks, enlarged until transport and F matter."""
    keys = iter(jax.random.split(jax.random.key(17), 7))

    def features(dim: int, count: int, spread: float) -> FourierFeatures:
        return FourierFeatures(next(keys), dim, count, spread, 2.0)

    control = Network(next(keys), 2, 16, 2, features(2, 4, 0.3), features(1, 2, 1.0), features(1, 2, 1.0))
    free = Network(next(keys), 1, 16, 1, None, features(1, 2, 1.0), features(1, 2, 1.0))
    free = eqx.tree_at(lambda n: n.mlp.layers[-1].weight, free, 3.0 * free.mlp.layers[-1].weight)
    return Model(Control(control, SPEED), FreeEnergy(free), None)


def _runner():
    """`run(proposal, model, key, walkers)` -> walkers after ten steps, traced afresh for every runner."""

    @eqx.filter_jit
    def run(proposal: Proposal, model: Model, key: Array, walkers: Walker) -> Walker:
        h = jnp.asarray(1.0 / STEPS)

        def advance(walkers: Walker, step: Array) -> tuple[Walker, None]:
            keys = jax.random.split(jax.random.fold_in(key, step), WALKERS)
            t = step.astype(h.dtype) * h
            return jax.vmap(lambda k, w: proposal.step(k, t, h, w, model))(keys, walkers), None

        with jax.default_matmul_precision("float32"):
            return jax.lax.scan(advance, walkers, jnp.arange(STEPS))[0]

    return run


def _started(proposal: Proposal, key: Array) -> Walker:
    """Where a rollout begins."""
    walkers = jax.jit(jax.vmap(lambda one: proposal.init(one)))(jax.random.split(key, WALKERS))
    return eqx.tree_at(lambda w: w.log_weight, walkers, jnp.zeros(WALKERS))


def _free_energy(s: float, beta: Column) -> Column:
    """Of the path in closed form, by numpy."""
    precision, _, lowest = _moments(s)
    envelope = (1.0 - s) * np.log(2.0 * np.pi * SOURCE_SCALE**2 / beta)
    return envelope + beta * lowest - np.log(2.0 * np.pi / beta) + 0.5 * np.linalg.slogdet(precision)[1]


def _moments(s: float) -> tuple[Column, Column, float]:
    """Precision and mean of the path at temperature one, and its lowest energy less the constant."""
    own = WHITENER.T @ WHITENER
    precision = (1.0 - s) / SOURCE_SCALE**2 * np.eye(2) + s * own
    mean = np.linalg.solve(precision, s * own @ MEAN)
    return precision, mean, float(0.5 * s * MEAN @ own @ MEAN - 0.5 * mean @ precision @ mean)


def _log_ratio(joint: JointDensity, model: Model) -> float:
    r"""$\log Z_1/Z_0$ of the joint density, by quadrature over ξ in float64."""

    def learned(beta: Column) -> Column:
        values = jax.jit(jax.vmap(lambda b: model.free_energy(jnp.ones(()), b)))(jnp.asarray(beta, jnp.float32))
        return np.asarray(values, np.float64)

    if joint.tempering is None:
        one = np.ones(1)
        return float((learned(one) - _free_energy(1.0, one))[0])
    xi = np.linspace(-6.0, 6.0, 8001)
    points = jnp.asarray(xi, jnp.float32)
    walls = np.asarray(jax.jit(jax.vmap(joint.tempering.confinement))(points), np.float64)
    beta = np.asarray(jax.jit(jax.vmap(joint.tempering.map))(points), np.float64)
    return float(np.log(np.sum(np.exp(walls + learned(beta) - _free_energy(1.0, beta))) / np.sum(np.exp(walls))))


def _against(log_weight: Column, exact: float) -> dict[str, float]:
    largest = log_weight.max()
    weight = np.exp(log_weight - largest)
    error = float(np.log(weight.mean()) + largest - exact)
    standard_error = float(weight.std(ddof=1) / weight.mean() / np.sqrt(weight.size))
    return {"error": error, "standard_error": standard_error, "z": error / standard_error}


def _standing(proposal: Proposal, walkers: Walker) -> Walker:
    """The same walkers at exact draws of x where the path stands still; the weights make up for F = 0."""
    precision, mean, _ = _moments(STANDING)
    beta = np.asarray(jax.vmap(proposal.joint.beta)(walkers.xi), np.float64)
    noise = np.random.default_rng(3).normal(size=(WALKERS, 2)) / np.sqrt(beta)[:, None]
    x = jnp.asarray(mean + noise @ np.linalg.inv(np.linalg.cholesky(precision)), jnp.float32)
    log_weight = -_free_energy(STANDING, beta)
    # Less the largest, which is of no consequence but for the size of the numbers.
    shifted = jnp.asarray(log_weight - log_weight.max(), jnp.float32)
    cached = jax.jit(jax.vmap(lambda point: proposal.look(point)))(x)
    return eqx.tree_at(lambda w: (w.x, w.cached, w.log_weight), walkers, (x, cached, shifted))


def _worst_score(joint: JointDensity, before: Walker, after: Walker) -> float:
    """Weighted moments of the same walkers before and after; their differences have mean zero.

    Infinite where the kernel left most of the weight to a few walkers: the differences are then
    about as large as their own errors, whatever has gone wrong.
    """
    if _effective(after) < 0.5 * _effective(before):
        return float("inf")
    change = _weighted_moments(joint, after) - _weighted_moments(joint, before)
    error = change.std(axis=0, ddof=1) / np.sqrt(WALKERS)
    # What does not move at all (the momentum of a proposal without one) has no error either.
    return float(np.max(np.abs(change.mean(axis=0)) / np.maximum(error, 1e-12)))


def _effective(walkers: Walker) -> float:
    """The share of effective weights; zero where there is none or one is not a number."""
    log_weight = np.asarray(walkers.log_weight, np.float64)
    if not np.max(log_weight) > -np.inf:
        return 0.0
    weight = np.exp(log_weight - np.max(log_weight))
    return float(weight.sum() ** 2 / (weight.size * np.sum(weight**2)))


def _weighted_moments(joint: JointDensity, walkers: Walker) -> Column:
    """Functions of the whole state times the weight, one a column; the first is the constant."""
    x, p, xi, q = (np.asarray(v, np.float64) for v in (walkers.x, walkers.momentum, walkers.xi, walkers.xi_momentum))
    b = np.asarray(jax.vmap(joint.beta)(walkers.xi), np.float64)
    columns = [np.ones_like(b), x[:, 0], x[:, 1], x[:, 0] ** 2, x[:, 1] ** 2, x[:, 0] * x[:, 1]]
    columns += [b * np.sum(p**2, axis=1), np.sum(x * p, axis=1), np.abs(xi) < 0.5, np.abs(xi) > 1.5, q**2, xi * q]
    return np.stack(columns, axis=1) * np.exp(np.asarray(walkers.log_weight, np.float64))[:, None]
