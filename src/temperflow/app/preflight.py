"""Does this target make sense? Asked before anything is spent on it."""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from temperflow.app.errors import UsageError
from temperflow.targets import Target

DRAWS = 256
# More than this share of the source outside the support is no nuisance but a boundary, which no
# smooth transport crosses; less is dropped location by location, and counted.
FATAL_SHARE = 0.1
FINGERPRINTS = 8
# Two machines' energies agree to rounding; two different densities do not.
SAME_TO = 1e-3


@dataclass(frozen=True)
class Preflight:
    """What a look at the target from the source showed.

    Args:
        fingerprint: log density at a few fixed points, to know the target by; None where not finite.
        warnings: what is odd but not fatal.
        energy_calls: what the look cost.
    """

    fingerprint: tuple[float | None, ...]
    warnings: tuple[str, ...]
    energy_calls: int = DRAWS


def preflight(target: Target, source_scale: float) -> Preflight:
    r"""Check dimension, shape and type without compute, then value and gradient at draws of $N(0, \sigma_0^2 I)$.

    Refused: a log density that does not trace, is not one real number, has no gradient, is flat
    along a coordinate, or is not finite in more than a tenth of the draws. A smaller share is a warning.

    >>> import jax.numpy as jnp
    >>> preflight(Target(lambda x: -jnp.sum(x**2), dim=2), 1.0).warnings
    ()
    >>> preflight(Target(lambda x: x, dim=2), 1.0)
    Traceback (most recent call last):
        ...
    temperflow.app.errors.UsageError: got a log density of float32[2] at one point
    expected one real number, float32[]
    to do: sum over the coordinates; batching is done for you
    """
    _check_interface(target, source_scale)
    log_density, gradient = _looked_at(target, source_scale)
    if np.all(np.isnan(log_density)):
        raise UsageError(
            got=f"a log density that is NaN at all of {DRAWS} draws from N(0, {source_scale:g}² I)",
            expected="finite values where the sampler starts",
            todo="evaluate it at the origin and look for logarithms or roots of negative numbers",
        )
    if np.any(log_density == np.inf):
        raise UsageError(
            got="a log density of +inf where the sampler starts",
            expected="finite values: a density has no infinite peaks",
            todo="check its sign and its divisions",
        )
    warnings = []
    outside = float(np.mean(~np.isfinite(log_density)))
    broken = float(np.mean(np.isfinite(log_density) & ~np.all(np.isfinite(gradient), axis=1)))
    for share, what, cure in (
        (outside, "a log density that is -inf or NaN", "map bounded parameters to the whole of R^d, Jacobian included"),
        (broken, "a gradient that is not finite", "look for jnp.where over a branch that is not finite"),
    ):
        if share > FATAL_SHARE:
            raise UsageError(
                got=f"{what} at {share:.0%} of {DRAWS} draws from N(0, {source_scale:g}² I)",
                expected=f"at most {FATAL_SHARE:.0%}: no smooth transport crosses a hard boundary",
                todo=cure,
            )
        if share > 0.0:
            warnings.append(f"{what} at {share:.1%} of the source's draws; such locations are dropped and counted")
    moved = np.any(gradient[np.all(np.isfinite(gradient), axis=1)] != 0.0, axis=0)
    if not np.any(moved):
        raise UsageError(
            got="a gradient of exactly zero at every draw",
            expected="a log density that changes with its argument, differentiably",
            todo="look for rounding, comparisons, integer arithmetic or stop_gradient in it",
        )
    if not np.all(moved):
        still = np.flatnonzero(~moved).tolist()
        raise UsageError(
            got=f"a log density that ignores coordinates {_listed(still)} of 0 to {target.dim - 1}",
            expected="one that depends on each: along a flat one it has no normalisation",
            todo="check --dim; where it is flat near the origin only, set a larger --source_scale",
        )
    points = tuple(float(value) if np.isfinite(value) else None for value in log_density[:FINGERPRINTS])
    return Preflight(points, tuple(warnings))


def fingerprint(target: Target, source_scale: float) -> tuple[float | None, ...]:
    """The target's values at the fixed points alone."""
    log_density, _ = _looked_at(target, source_scale)
    return tuple(float(value) if np.isfinite(value) else None for value in log_density[:FINGERPRINTS])


def same_fingerprint(one: Any, other: Any) -> bool:
    """Whether two fingerprints can be of one target."""
    if len(one) != len(other):
        return False
    pairs = list(zip(one, other, strict=True))
    if any((a is None) != (b is None) for a, b in pairs):
        return False
    return all(abs(a - b) <= SAME_TO * (1.0 + abs(a)) for a, b in pairs if a is not None)


def _check_interface(target: Target, source_scale: float) -> None:
    dim: Any = target.dim
    try:
        whole = operator.index(dim)
    except TypeError:
        whole = 0
    if whole < 1 or isinstance(dim, bool):
        raise UsageError(got=f"dim={dim!r}", expected="a positive whole number", todo="pass the number of parameters")
    if not 0.0 < source_scale < float("inf"):
        raise UsageError(
            got=f"a source of scale {source_scale!r}",
            expected="a positive number",
            todo="set source_scale to about the size of the region that surely holds the mass",
        )
    if not callable(target.log_density):
        raise UsageError(
            got=f"a log density of type {type(target.log_density).__name__}",
            expected="a function of one point",
            todo="pass the function itself",
        )
    point = jax.ShapeDtypeStruct((whole,), jnp.zeros(()).dtype)
    value = _traced(target.log_density, point, dim)
    if not isinstance(value, jax.ShapeDtypeStruct) or value.shape != () or value.dtype != point.dtype:
        shown = f"type {type(value).__name__}"
        if isinstance(value, jax.ShapeDtypeStruct):
            shown = f"{value.dtype}{list(value.shape)}"
        raise UsageError(
            got=f"a log density of {shown} at one point",
            expected=f"one real number, {point.dtype}[]",
            todo="sum over the coordinates; batching is done for you",
        )
    try:
        jax.eval_shape(target.energy_and_grad, point)
    except Exception as error:
        raise UsageError(
            got=f"a log density without a gradient: {_first_line(error)}",
            expected="a function that jax.grad can differentiate",
            todo="write it in jax.numpy, or give a callback its derivative with jax.custom_jvp",
        ) from error


def _traced(function: Callable[..., Any], point: jax.ShapeDtypeStruct, dim: int) -> Any:
    try:
        return jax.eval_shape(function, point)
    except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
        raise UsageError(
            got=f"a log density that JAX cannot trace: {_first_line(error)}",
            expected="a function of jax.numpy operations, without `if` or `float()` on its values",
            todo="replace numpy by jax.numpy and `if` by jnp.where",
        ) from error
    except Exception as error:
        raise UsageError(
            got=f"a log density that raises {_first_line(error)}",
            expected=f"a value at one point of shape ({dim},)",
            todo=f"check the function and dim={dim}",
        ) from error


def _looked_at(target: Target, source_scale: float) -> tuple[np.ndarray, np.ndarray]:
    points = source_scale * jax.random.normal(jax.random.key(0), (DRAWS, target.dim))
    try:
        energy, gradient = _evaluated(target, points)
        return -np.asarray(energy, np.float64), np.asarray(gradient, np.float64)
    except Exception as error:  # a callback of the user's may raise anything
        raise UsageError(
            got=f"a log density that raises when evaluated: {_first_line(error)}",
            expected=f"a value at one point of shape ({target.dim},)",
            todo="call it at the origin and see",
        ) from error


@eqx.filter_jit
def _evaluated(target: Target, points: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(target.energy_and_grad)(points)


def _listed(numbers: list[int], most: int = 4) -> str:
    return ", ".join(map(str, numbers[:most])) + (", ..." if len(numbers) > most else "")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
