"""Have all digits arrived? The same numbers again in float64 on the host, by numpy alone.

Shortened matrix products (TF32) are wrong in the fourth digit, ten times what is allowed here.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from temperflow.models import Control, FourierFeatures, FreeEnergy, Model, Network
from temperflow.paths import Continuum, Identity
from temperflow.proposals import JointDensity, Transport, rollout
from temperflow.sampling import EulerFlow
from temperflow.targets import Target

Values = NDArray[np.float64]

DIM, POINTS, STEPS = 5, 64, 8  # five dimensions: the determinants are factorised, not written out
# A control this strong carries walkers three source widths away, so that what is wrong in the network is wrong in every
# weight: at a quarter of it the target's energies, which have all their digits, hide most of the error.
SOURCE_SCALE, SPEED = 1.5, 32.0

# Errors are relative to the largest value, or to one where that is smaller. Over seeds a sound CPU stays under a
# twentieth of this, and shortened products come to five times of it at least.
TOLERANCE = {"energy": 3e-5, "gradient": 3e-5, "log_determinant": 3e-5, "log_weight": 1e-5, "jacobian": 1e-5}
MEANINGS = {
    "energy": "target energies, against float64",
    "gradient": "and their gradients",
    "log_determinant": "of the flow's eight steps, against float64",
    "log_weight": "of transport along a path, against float64",
    "jacobian": "the network's own Jacobian, against autodiff's",
}


def examined() -> dict[str, float]:
    """The relative error of everything that stands in a weight."""
    rng = np.random.default_rng(5)
    whitener, mean = np.eye(DIM) + 0.3 * rng.normal(size=(DIM, DIM)), rng.normal(size=DIM)
    whitener, mean = whitener.astype(np.float32), mean.astype(np.float32)

    def log_density(x: jax.Array) -> jax.Array:
        # A plain product, as a user would write it: that it is not shortened is the package's business.
        return -0.5 * jnp.sum((whitener @ (x - mean)) ** 2)

    target = Target(log_density, dim=DIM)
    joint = JointDensity(Continuum(DIM, SOURCE_SCALE, Identity()), tempering=None)
    model = eqx.filter_jit(_model)()
    times = jnp.linspace(0.0, 1.0, STEPS + 1)
    proposal, flow = Transport(joint, target), EulerFlow(STEPS)
    run = jax.jit(lambda key: rollout(key, proposal, model, POINTS, times))(jax.random.key(2))
    starts = run.walkers.x[0]
    flown = jax.jit(jax.vmap(lambda x: flow.forward(model.control, x)))(starts)
    energy, gradient = jax.jit(jax.vmap(lambda x: target.energy_and_grad(x)))(starts)

    white = (_double(starts) - _double(mean)) @ _double(whitener).T
    again = [_transported(model, x, _double(whitener), _double(mean)) for x in _double(starts)]
    log_det, log_weight = (np.array(column) for column in zip(*again, strict=True))
    return {
        "energy": _error(energy, 0.5 * np.sum(white**2, axis=1)),
        "gradient": _error(gradient, white @ _double(whitener)),
        "log_determinant": _error(flown.log_det, log_det),
        "log_weight": _error(run.last.log_weight, log_weight),
        "jacobian": _jacobian_error(model.control.network, starts),
    }


def _model() -> Model:
    keys = iter(jax.random.split(jax.random.key(23), 7))

    def features(dim: int, count: int, spread: float) -> FourierFeatures:
        return FourierFeatures(next(keys), dim, count, spread, 3.0)

    control = Network(next(keys), DIM, 64, 2, features(DIM, 16, 0.2), features(1, 4, 1.0), features(1, 2, 1.0))
    free = Network(next(keys), 1, 16, 1, None, features(1, 4, 1.0), features(1, 2, 1.0))
    return Model(Control(control, SPEED), FreeEnergy(free), None)


def _jacobian_error(network: Network, points: jax.Array) -> float:
    """Of the pass that carries its derivatives along, against forward differentiation of the plain one."""
    t, beta = jnp.asarray(0.4), jnp.asarray(0.7)
    with jax.default_matmul_precision("float32"):
        _, carried = jax.jit(jax.vmap(lambda x: network.value_and_jacobian(t, x, beta)))(points)
        pushed = jax.jit(jax.vmap(jax.jacfwd(lambda x: network(t, x, beta))))(points)
    return _error(carried, _double(pushed))


def _transported(model: Model, x: Values, whitener: Values, mean: Values) -> tuple[float, float]:
    """Σ log|det(I + h ∂μ)| and the path weight of one walker, Euler step by Euler step."""
    start, log_det, h = x, 0.0, 1.0 / STEPS
    for step in range(STEPS):
        value, jacobian = _network(model.control.network, step * h, x, 1.0)
        log_det += float(np.linalg.slogdet(np.eye(DIM) + h * SPEED * jacobian)[1])
        x = x + h * SPEED * value
    free_energy = _network(model.free_energy.network, 1.0, np.zeros(0), 1.0)[0][0]
    end = 0.5 * np.sum((whitener @ (x - mean)) ** 2) - free_energy
    source = 0.5 * np.sum(start**2) / SOURCE_SCALE**2 + 0.5 * DIM * np.log(2.0 * np.pi * SOURCE_SCALE**2)
    return log_det, float(log_det - end + source)


def _network(network: Network, t: float, x: Values, beta: float) -> tuple[Values, Values]:
    """Value and Jacobian in x, layer by layer."""
    values, slopes = [], []
    for features, z in ((network.position, x), (network.time, np.array([t])), (network.temperature, np.array([beta]))):
        if features is not None:
            value, slope = _features(features, z)
            values.append(value)
            slopes.append(slope if z is x else np.zeros((value.size, x.size)))
    hidden, along = np.concatenate(values), np.concatenate(slopes)
    *inner, last = network.mlp.layers
    for layer in inner:
        z, along = _double(layer.weight) @ hidden + _double(layer.bias), _double(layer.weight) @ along
        sigmoid = 1.0 / (1.0 + np.exp(-z))
        hidden, along = z * sigmoid, (sigmoid * (1.0 + z * (1.0 - sigmoid)))[:, None] * along
    return _double(last.weight) @ hidden + _double(last.bias), _double(last.weight) @ along


def _features(features: FourierFeatures, z: Values) -> tuple[Values, Values]:
    turns = 2.0 * np.pi * _double(features.frequencies)
    phase = turns @ z
    value, slope = [np.sin(phase), np.cos(phase)], [np.cos(phase)[:, None] * turns, -np.sin(phase)[:, None] * turns]
    if features.raw_scale is not None:
        value.append(z / features.raw_scale)
        slope.append(np.eye(z.size) / features.raw_scale)
    return np.concatenate(value), np.concatenate(slope)


def _double(values: object) -> Values:
    return np.asarray(values, np.float64)


def _error(found: object, exact: Values) -> float:
    """The largest difference, relative to the largest value; not a number if there is one anywhere."""
    return float(np.max(np.abs(_double(found) - exact)) / max(np.max(np.abs(exact)), 1.0))
