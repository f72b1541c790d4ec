"""A pytree's arrays by name, in safetensors: a format that holds numbers and nothing that could run."""

from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from temperflow.app.manifest import Refused

Tree = TypeVar("Tree")


def to_bytes(tree: Any) -> bytes:
    """Every array of the tree under the path that leads to it.

    >>> import jax.numpy as jnp
    >>> sorted(load(to_bytes({"a": jnp.ones(2), "b": (jnp.zeros(()), "text")})))
    ['a', 'b.0']
    """
    arrays = eqx.filter(tree, eqx.is_array)
    named = {_name(path): np.ascontiguousarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(arrays)}
    # `ascontiguousarray` makes a scalar a vector of one.
    shapes = {_name(path): leaf.shape for path, leaf in jax.tree_util.tree_leaves_with_path(arrays)}
    return save({name: leaf.reshape(shapes[name]) for name, leaf in named.items()})


def from_bytes(content: bytes, like: Tree) -> Tree:
    """The tree `like` with its arrays replaced by those stored; names, shapes and dtypes must agree.

    Args:
        content: what `to_bytes` made.
        like: a tree of the same structure; its arrays may be `jax.ShapeDtypeStruct`s.

    >>> import jax.numpy as jnp
    >>> from_bytes(to_bytes([jnp.ones(2), "text"]), like=[jnp.zeros(2), "other"])
    [Array([1., 1.], dtype=float32), 'other']
    """
    try:
        stored = load(content)
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise _refused(f"arrays that cannot be read ({error})") from None
    holes, rest = eqx.partition(like, lambda leaf: eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct))
    paths, structure = jax.tree_util.tree_flatten_with_path(holes)
    names = [_name(path) for path, _ in paths]
    if missing := sorted(set(names) ^ set(stored)):
        raise _refused(f"arrays whose names differ, first at {missing[0]!r}")
    leaves = []
    for name, (_, hole) in zip(names, paths, strict=True):
        leaf = stored[name]
        if leaf.shape != hole.shape or leaf.dtype != hole.dtype:
            raise _refused(f"{name} of {leaf.dtype}{list(leaf.shape)} where {hole.dtype}{list(hole.shape)} belongs")
        # A copy: the file's own memory must not end up donated to a computation.
        leaves.append(jnp.array(leaf, copy=True))
    return eqx.combine(jax.tree_util.tree_unflatten(structure, leaves), rest)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _refused(got: str) -> Refused:
    return Refused(
        got=got,
        expected="the arrays of this configuration",
        todo="use the configuration and the version that wrote them",
    )
