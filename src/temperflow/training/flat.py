"""A model's numbers as one vector: an update is then a few long operations, not hundreds of short ones."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from temperflow.models import Model


def flat(model: PyTree) -> tuple[Float[Array, " count"], Callable[[Float[Array, " count"]], Any]]:
    """Every float of a model in one vector, and the way back.

    >>> import equinox as eqx, jax
    >>> mlp = eqx.nn.MLP(2, 3, 8, 2, key=jax.random.key(0))
    >>> numbers, restored = flat(mlp)
    >>> numbers.shape, bool(eqx.tree_equal(restored(numbers), mlp))
    ((123,), True)
    """
    floats, rest = eqx.partition(model, eqx.is_inexact_array)
    numbers, restored = ravel_pytree(floats)
    return numbers, lambda numbers: eqx.combine(restored(numbers), rest)


def by_matrices(inner: optax.GradientTransformation, model: Model) -> optax.GradientTransformation:
    """An optimiser that must know which numbers form a matrix, for parameters that come as one vector.

    Args:
        inner: works on trees of arrays.
        model: any with the shapes to be trained.
    """
    _, restored = flat(model)

    def split(numbers: Any) -> Any:
        return eqx.filter(restored(numbers), eqx.is_inexact_array)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        change, state = inner.update(split(updates), state, split(params))
        return ravel_pytree(change)[0], state

    return optax.GradientTransformation(lambda params: inner.init(split(params)), update)
