"""Exact 2-Wasserstein distance between two samples, and the floor under which it cannot go."""

from typing import cast

import jax
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from temperflow.targets.base import Draw

Points = Float[Array | np.ndarray, "_ _"]
Matrix = NDArray[np.floating]
# Share of the points whose own assignment tells the prices for all, and the size from which that pays.
SUBSAMPLE, FEWEST = 0.4, 300
TOLERANCE = 1e-9


def w2(x: Points, y: Points) -> float:
    r"""$\sqrt{\min_\sigma \frac1n \sum_i |x_i - y_{\sigma(i)}|^2}$ over permutations (section 6).

    The assignment is exact, in float64; n = 2500 takes about a second. A row that is not
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
    _charge(cost)
    rows, columns = linear_sum_assignment(cost)
    return float(np.sqrt(np.mean(np.sum((left[rows] - right[columns]) ** 2, axis=1))))


def _charge(cost: Matrix) -> None:
    """Take from every row and column, in place, about what the optimum pays for it.

    The optimum stays the same: each permutation meets every row and every column once. But the
    solver starts from prices of zero, and the further those are from the right ones the longer
    its augmenting paths. Draws of a few modes against draws of many took 15 s, and take one.
    """
    n = cost.shape[0]
    if n < FEWEST:
        return
    some = np.linspace(0, n - 1, round(SUBSAMPLE * n)).astype(np.intp)
    cost -= np.min(cost[:, some] - _prices(cost[np.ix_(some, some)]), axis=1, keepdims=True)
    cost -= np.min(cost, axis=0)
    cost -= np.min(cost, axis=1, keepdims=True)


def _prices(cost: Matrix) -> Matrix:
    """Prices v of columns that make a matrix's optimal assignment each row's best buy.

    With the assignment known they are shortest distances: v_j <= v_k + C_ij - C_ik wherever row i
    has column k (Bellman and Ford). Prices not quite right only cost time, hence the tolerance.
    """
    _, columns = linear_sum_assignment(cost)
    detour = cost - np.take_along_axis(cost, columns[:, None], axis=1)
    found = np.zeros(cost.shape[0])
    for _ in range(cost.shape[0]):
        better = np.minimum(found, np.min(detour + found[columns, None], axis=0))
        if np.max(found - better) <= TOLERANCE * np.max(cost):
            break
        found = better
    return found


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
