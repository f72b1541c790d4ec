"""How heavy the upper tail of the weights is: the shape of a generalised Pareto distribution."""

import numpy as np
from numpy.typing import NDArray

# Fewer exceedances than this say nothing about a tail.
_FEWEST = 5
# Excesses this far under the largest weight would take the estimator past float64's range.
_NEGLIGIBLE = 1e-250


def pareto_khat(log_weight: np.ndarray) -> float:
    r"""Shape $\hat k$ of the weights' upper tail: weighted averages need it under about 0.7.

    The largest $M = \lceil\min(n/5,\ 3\sqrt n)\rceil$ weights, less the largest weight outside
    that tail, are fitted by a generalised Pareto distribution and
    $\hat k = (M k + 5)/(M + 10)$: the estimate of Zhang & Stephens (2009, Technometrics 51),
    with the tail and the weak prior at 1/2 of Vehtari et al. (2024, JMLR 25). It judges the
    weights of MATH.md sections 5 and 6 beyond what their effective size can show: for
    $k \ge 1/2$ the weights have no variance, for $k \ge 1$ no mean.

    Args:
        log_weight: $\log w$, one axis, any common constant; minus infinity is a zero weight.

    Returns:
        The shape, or

        * minus infinity where nothing exceeds anything: all weights equal, or all of the tail's
          (the tail is bounded and reached; plain averages have no shape to fear);
        * plus infinity where there is nothing to trust: a weight that is NaN or plus infinity,
          no positive weight, or fewer than five values above the tail's foot (so n under 21).

    >>> import numpy as np
    >>> quantile = (np.arange(100_000) + 0.5) / 100_000
    >>> round(pareto_khat(-0.5 * np.log(quantile)), 1)  # w = u^-k has shape k
    0.5
    >>> pareto_khat(np.zeros(1000))
    -inf
    """
    log_weight = np.asarray(log_weight, np.float64)
    largest = np.max(log_weight, initial=-np.inf)
    if not np.isfinite(largest):  # NaN passes through max, so this covers it too
        return np.inf
    if np.all(log_weight == largest):
        return -np.inf
    n = log_weight.size
    tail_size = int(np.ceil(min(0.2 * n, 3 * np.sqrt(n))))
    tail = np.sort(log_weight - largest)[-(tail_size + 1) :]
    excess = _excess_over(tail[0], tail[1:])
    if excess.size < _FEWEST:
        return -np.inf if np.all(tail == 0) else np.inf
    if excess[0] == excess[-1]:
        return -np.inf
    shape = _zhang_stephens_shape(excess)
    return float((excess.size * shape + 10 * 0.5) / (excess.size + 10))


def _excess_over(foot: float, tail: NDArray[np.float64]) -> NDArray[np.float64]:
    """e^tail - e^foot where it is positive, keeping the digits of weights that are nearly equal."""
    # The tail's weight goes in front, not the foot's: e^(tail - foot) may be past any number.
    excess = np.exp(tail) if np.isneginf(foot) else -np.exp(tail) * np.expm1(foot - tail)
    return excess[excess > _NEGLIGIBLE]


def _zhang_stephens_shape(excess: NDArray[np.float64]) -> float:
    """Posterior mean over the ratio shape/scale, on a fixed grid, of sorted positive excesses."""
    count = excess.size
    grid_size = 30 + int(np.sqrt(count))
    quartile = excess[int(count / 4 + 0.5) - 1]
    place = np.arange(1, grid_size + 1) - 0.5
    grid = 1 / excess[-1] + (1 - np.sqrt(grid_size / place)) / (3 * quartile)
    grid = grid[grid != 0]  # the exponential limit has probability zero and divides by zero
    shape = np.log1p(-grid[:, None] * excess[None, :]).mean(axis=1)
    log_likelihood = count * (np.log(-grid / shape) - shape - 1)
    posterior = np.exp(log_likelihood - log_likelihood.max())
    best = np.sum(grid * posterior) / np.sum(posterior)
    return float(np.log1p(-best * excess).mean())
