"""Exact 2-Wasserstein distance between two samples, and the floor under which it cannot go."""

from typing import cast

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from temperflow.targets.base import Draw

Points = Float[Array | np.ndarray, "_ _"]


def w2(x: Points, y: Points) -> float:
    r"""$\sqrt{\min_\sigma \frac1n \sum_i |x_i - y_{\sigma(i)}|^2}$ over permutations (section 6).

    The assignment is exact, in float64; n = 2500 takes one to a few seconds. A row that is not
    finite is infinitely far from everything, so it makes the distance infinite.

    Args:
        x: one sample, a point a row.
        y: another, of the same size.

    >>> import numpy as np
    >>> w2(np.array([[0.0], [10.0]]), np.array([[13.0], [4.0]]))
    3.5355339059327378
    """
    if x.shape != y.shape or x.shape[0] == 0:
        raise ValueError(
            f"w2 compares two samples of one size: got shapes {x.shape} and {y.shape}. "
            "Draw as many points of one as there are of the other (`Draws.resample`)."
        )
    left, right = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if not (np.all(np.isfinite(left)) and np.all(np.isfinite(right))):
        return np.inf
    cost = cdist(left, right, "sqeuclidean")
    rows, columns = linear_sum_assignment(cost)
    return float(np.sqrt(cost[rows, columns].mean()))


def w2_floor(sample: Draw, n: int, trials: int = 10, seed: int = 0) -> tuple[float, float]:
    """Mean and standard deviation of `w2` between two independent exact samples of size `n`.

    A perfect sampler scores this, not zero: print it beside every `w2`.

    Args:
        sample: `Target.sample`, `(key, n) -> (n, dim)`.
        n: size of each sample.
        trials: how many pairs.
        seed: of the pairs.

    >>> import jax
    >>> mean, spread = w2_floor(lambda key, n: jax.random.normal(key, (n, 2)), n=100, trials=3)
    >>> 0.1 < mean < 0.5
    True
    """
    distances = []
    for trial in range(trials):
        first, second = jax.random.split(jax.random.fold_in(jax.random.key(seed), trial))
        distances.append(w2(sample(first, n), sample(second, n)))
    return mean_and_spread(distances)


def mean_and_spread(values: list[float]) -> tuple[float, float]:
    """Mean and sample standard deviation; one value has none (NaN), an infinite one an infinite.

    >>> mean_and_spread([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, np.nan
    return mean, float(np.std(values, ddof=1)) if np.isfinite(mean) else cast(float, np.inf)
