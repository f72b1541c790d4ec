"""Which modes the draws are in, and in what proportion. Needs to be told where the modes are."""

from dataclasses import dataclass, fields

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

from temperflow.targets.base import Modes


@dataclass(frozen=True)
class Coverage:
    r"""How a sample spreads over known modes (MATH.md section 6).

    With $\hat p_m$ the sample's (weighted) share of mode m and $s_m$ the target's:

    Args:
        modes: number of modes with $\hat p_m > 0$. A draw counts for the mode whose centre is
            nearest, however far it is, so a broad sample "holds" modes it does not resolve.
        entropic: $-\sum_m \hat p_m\log\hat p_m / \log M$, 1 for equal shares of all M modes;
            exact draws of modes of unequal shares stay below (`coverage_floor` says where).
        mode_tv: total variation $\frac12\sum_m |\hat p_m - s_m|$; draws that are not finite
            belong to no mode and count as lost.

    >>> import jax.numpy as jnp
    >>> two = Modes(jnp.array([[-1.0], [1.0]]), jnp.array([0.5, 0.5]))
    >>> found = coverage(two, jnp.array([[-0.9], [-1.2], [-1.1], [-1.0]]))
    >>> found.modes, found.entropic == 0.0, found.mode_tv  # one of two, as uneven as can be, half the mass misplaced
    (1.0, True, 0.5)
    """

    modes: float
    entropic: float
    mode_tv: float


def coverage(
    modes: Modes,
    x: Float[Array | np.ndarray, "n dim"],
    log_weight: Float[Array | np.ndarray, " n"] | None = None,
) -> Coverage:
    """The coverage of a sample.

    Args:
        modes: `Target.modes`.
        x: the draws.
        log_weight: their log weights, None if they weigh the same.

    >>> import jax.numpy as jnp
    >>> two = Modes(jnp.array([[-1.0], [1.0]]), jnp.array([0.5, 0.5]))
    >>> coverage(two, jnp.array([[-0.9], [-1.2], [0.8], [-1.0]])).mode_tv
    0.25
    """
    finite = np.all(np.isfinite(np.asarray(x)), axis=1)
    # A point that is nowhere still needs a place for `assign`; it is left out of the count.
    placed = jnp.asarray(np.where(finite[:, None], np.asarray(x), 0.0), modes.centres.dtype)
    mode = np.asarray(modes.assign(placed))
    weight = np.ones(x.shape[0]) if log_weight is None else _weights(log_weight)
    held = np.bincount(mode[finite], weight[finite], minlength=modes.shares.size)
    return _summarise(held / weight.sum(), _shares(modes))


def coverage_floor(modes: Modes, n: int, repeats: int = 1000, seed: int = 0) -> tuple[Coverage, Coverage]:
    """Mean and standard deviation of the coverage of `n` exact draws, by drawing their counts.

    Args:
        modes: `Target.modes`.
        n: draws in a sample.
        repeats: how many samples to simulate; each is one multinomial, so this costs nothing.
        seed: of the simulation.

    >>> import jax.numpy as jnp
    >>> two = Modes(jnp.array([[-1.0], [1.0]]), jnp.array([0.5, 0.5]))
    >>> mean, spread = coverage_floor(two, n=100)
    >>> round(mean.mode_tv, 2)  # E|binomial - n/2| / n, about 0.4 / sqrt(n)
    0.04
    """
    shares = _shares(modes)
    counts = np.random.default_rng(seed).multinomial(n, shares, size=repeats)
    samples = [_summarise(count / n, shares) for count in counts]
    names = [field.name for field in fields(Coverage)]
    columns = {name: [getattr(sample, name) for sample in samples] for name in names}
    return (
        Coverage(**{name: float(np.mean(column)) for name, column in columns.items()}),
        Coverage(**{name: float(np.std(column)) for name, column in columns.items()}),
    )


def _summarise(held: NDArray[np.float64], shares: NDArray[np.float64]) -> Coverage:
    positive = held[held > 0]
    entropy = -np.sum(positive * np.log(positive))
    lost = max(1 - held.sum(), 0.0)
    return Coverage(
        modes=float(positive.size),
        entropic=float(entropy / np.log(shares.size)) if shares.size > 1 else float(positive.size),
        mode_tv=float(0.5 * (np.sum(np.abs(held - shares)) + lost)),
    )


def _shares(modes: Modes) -> NDArray[np.float64]:
    shares = np.asarray(modes.shares, np.float64)
    return shares / shares.sum()


def _weights(log_weight: Float[Array | np.ndarray, " n"]) -> NDArray[np.float64]:
    """In float64 on the host; equal where all are zero, as `proposals.weights.normalised` has it."""
    values = np.asarray(log_weight, np.float64)
    largest = values.max()
    return np.ones_like(values) if np.isneginf(largest) else np.exp(values - largest)
