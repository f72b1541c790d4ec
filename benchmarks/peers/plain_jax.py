"""The training iteration as one writes it first in JAX: an MLP, `jacfwd`, a `jvp` a term, `vmap`, Adam."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

Arrays = dict[str, jax.Array]


def mlp(arrays: Arrays, prefix: str, inputs: jax.Array) -> jax.Array:
    """SiLU between the layers."""
    index = 0
    while f"{prefix}.layer{index + 1}.weight" in arrays:
        inputs = jax.nn.silu(arrays[f"{prefix}.layer{index}.weight"] @ inputs + arrays[f"{prefix}.layer{index}.bias"])
        index += 1
    return arrays[f"{prefix}.layer{index}.weight"] @ inputs + arrays[f"{prefix}.layer{index}.bias"]


def network(arrays: Arrays, prefix: str, t: jax.Array, x: jax.Array, beta: jax.Array) -> jax.Array:
    """Fourier features of what the network sees, then the MLP."""
    parts = []
    for name, value in (("position", x), ("time", t[None]), ("temperature", beta[None])):
        if f"{prefix}.{name}" in arrays:
            # In full precision, as phases need.
            frequencies = jax.lax.stop_gradient(arrays[f"{prefix}.{name}"])
            phase = 2.0 * jnp.pi * jnp.sum(frequencies * value[None, :], axis=1)
            parts += [jnp.sin(phase), jnp.cos(phase)]
            if f"{prefix}.{name}_scale" in arrays:
                parts.append(value / jax.lax.stop_gradient(arrays[f"{prefix}.{name}_scale"]))
    return mlp(arrays, prefix, jnp.concatenate(parts))


def residual(arrays: Arrays, place: Arrays) -> jax.Array:
    """r at one location."""
    t, x, beta = place["t"], place["x"], place["beta"]
    variance = jax.lax.stop_gradient(arrays["source_scale"]) ** 2

    def control(x: jax.Array) -> jax.Array:
        return jax.lax.stop_gradient(arrays["output_scale"]) * network(arrays, "control", t, x, beta)

    def free_energy(t: jax.Array) -> jax.Array:
        return t * network(arrays, "free_energy", t, x, beta)[0]

    def energy(t: jax.Array, y: jax.Array) -> jax.Array:
        target = place["energy"] + jnp.sum(place["gradient"] * (y - x))
        value = (1.0 - t) * jnp.sum(y**2) / (2.0 * variance) + t * target
        if "potential.layer0.weight" in arrays:
            value = value + t * (1.0 - t) * network(arrays, "potential", t, y, beta)[0]
        return beta * value + (1.0 - t) * x.size / 2.0 * jnp.log(2.0 * jnp.pi * variance / beta)

    velocity = control(x)
    divergence = jnp.trace(jax.jacfwd(control)(x))
    _, rate = jax.jvp(free_energy, (t,), (jnp.ones_like(t),))
    _, along = jax.jvp(energy, (t, x), (jnp.ones_like(t), velocity))
    return rate - along + divergence


def loss(arrays: Arrays, batch: Arrays) -> jax.Array:
    """The mean square residual."""
    return jnp.mean(jax.vmap(lambda place: residual(arrays, place))(batch) ** 2)


def learned(arrays: dict[str, Any]) -> dict[str, Any]:
    """The arrays that are trained."""
    return {name: value for name, value in arrays.items() if ".layer" in name}


def learn(arrays: Arrays, buffer: Arrays, batch: int, iterations: int, optimiser: optax.GradientTransformation) -> Any:
    """A function of (parameters, optimiser state) that makes so many updates in one scan."""
    fixed = {name: value for name, value in arrays.items() if name not in learned(arrays)}
    size = buffer["t"].shape[0]

    def update(carry: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        parameters, state = carry
        index = jax.random.randint(key, (batch,), 0, size)
        sample = {name: value[index] for name, value in buffer.items()}
        value, gradient = jax.value_and_grad(lambda p: loss({**fixed, **p}, sample))(parameters)
        change, state = optimiser.update(gradient, state, parameters)
        return (optax.apply_updates(parameters, change), state), value

    def run(carry: Any) -> tuple[Any, jax.Array]:
        return jax.lax.scan(update, carry, jax.random.split(jax.random.key(1), iterations))

    return run
