r"""A value and several derivatives carried together through the layers of an MLP.

One row of a stack is a layer's value, the others its derivatives along fixed directions. A
linear layer treats all rows alike, so it is one matrix product for everything; only the
activation knows which row is which. Reverse-mode derivatives pass through as usual.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def carry(
    layers: Sequence[eqx.nn.Linear], stack: Float[Array, "rows width"]
) -> tuple[Float[Array, " outputs"], Float[Array, "directions outputs"]]:
    """Through an MLP with SiLU units, from the first layer's product (its bias still to come) to the end.

    >>> import equinox as eqx, jax, jax.numpy as jnp
    >>> mlp = eqx.nn.MLP(2, 3, 8, 2, activation=jax.nn.silu, key=jax.random.key(0))
    >>> z, direction = jnp.array([1.0, -1.0]), jnp.array([0.0, 1.0])
    >>> both = jnp.stack([z, direction]) @ mlp.layers[0].weight.T
    >>> value, derivative = jax.jvp(mlp, (z,), (direction,))
    >>> carried, along = carry(mlp.layers, both)
    >>> bool(jnp.allclose(carried, value)), bool(jnp.allclose(along[0], derivative))
    (True, True)
    """
    bias = bias_of(layers[0])
    for layer in layers[1:]:
        stack = stacked_silu(stack, bias) @ layer.weight.T
        bias = bias_of(layer)
    return stack[0] + bias, stack[1:]


def bias_of(layer: eqx.nn.Linear) -> Float[Array, " outputs"]:
    """The bias, which every layer here has."""
    assert layer.bias is not None
    return layer.bias


@jax.custom_vjp
def stacked_silu(stack: Float[Array, "rows width"], bias: Float[Array, " width"]) -> Float[Array, "rows width"]:
    r"""$z\,\sigma(z)$ of the first row, with the bias added to it, and its derivative times each other row.

    With $a = z\sigma$ the value is $z$ times $\sigma$ and a derivative $\dot z$ times
    $\sigma + a(1-\sigma)$: one factor a row, and nothing has to be cut up or put together. The
    rule for the reverse pass keeps the input alone and forms every row's cotangent at once.
    """
    is_value, moving = _row_kinds(stack)
    z = stack[:1] + bias[None, :]
    sigmoid = jax.nn.sigmoid(z)
    factor = sigmoid + moving * (z * sigmoid * (1.0 - sigmoid))
    return (stack + is_value * bias[None, :]) * factor


def _stacked_silu_forward(stack, bias):
    return stacked_silu(stack, bias), (stack, bias)


def _stacked_silu_backward(residuals, cotangent):
    stack, bias = residuals
    is_value, _ = _row_kinds(stack)
    z = stack[:1] + bias[None, :]
    sigmoid = jax.nn.sigmoid(z)
    rest = 1.0 - sigmoid
    first = sigmoid * (1.0 + z * rest)
    second = sigmoid * rest * (2.0 + z * (rest - sigmoid))
    bent = second * jnp.sum((cotangent * stack)[1:], axis=0, keepdims=True)
    back = first * cotangent + is_value * bent
    return back, back[0]


stacked_silu.defvjp(_stacked_silu_forward, _stacked_silu_backward)


def _row_kinds(stack: Float[Array, "rows width"]) -> tuple[Float[Array, "rows 1"], Float[Array, "rows 1"]]:
    """Ones at the value's row and zeros elsewhere; and the opposite."""
    moving = jnp.minimum(jnp.arange(stack.shape[0], dtype=stack.dtype), 1.0)[:, None]
    return 1.0 - moving, moving
