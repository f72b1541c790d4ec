"""What log w = log π̂₁ - log q says of a sampler, at its own draws and at exact ones."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Array, Float
from numpy.typing import NDArray

LogWeights = Float[Array | np.ndarray, " n"]


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error, for independent draws.

    >>> import math
    >>> one, other = Estimate(1.9, 0.3), Estimate(2.6, 0.4)
    >>> abs(one.value - other.value) < 2 * math.hypot(one.error, other.error)  # they agree
    True
    """

    value: float
    error: float


def elbo(log_weight: LogWeights) -> Estimate:
    r"""$E_q[\log\hat\pi_1 - \log q] \le \log Z$ (MATH.md section 6).

    A bound only if `log q` is the exact density of the map that made the draws.

    Args:
        log_weight: $\log w$ at draws from q. One of minus infinity makes the bound vacuous.

    >>> import numpy as np
    >>> elbo(np.array([-1.0, -3.0]))
    Estimate(value=-2.0, error=1.0)
    """
    return _mean(np.asarray(log_weight, np.float64))


def eubo(log_weight_exact: LogWeights) -> Estimate:
    r"""$E_{\pi_1}[\log\hat\pi_1 - \log q] \ge \log Z$ (MATH.md section 6).

    It is the bound that a missed mode cannot hide from.

    Args:
        log_weight_exact: $\log w$ at exact draws from the target, `log q` the same map's.

    >>> import numpy as np
    >>> eubo(np.array([1.0, 3.0]))
    Estimate(value=2.0, error=1.0)
    """
    return _mean(np.asarray(log_weight_exact, np.float64))


def reverse_ess(log_weight: LogWeights) -> Estimate:
    r"""$(\sum w)^2 / (n\sum w^2)$ at draws from q, a share of one (MATH.md section 6).

    The error is the delta method's; it, too, is blind to a mode that no draw found. Zero if no
    draw has weight.

    Args:
        log_weight: $\log w$ at draws from q, up to a constant.

    >>> import numpy as np
    >>> reverse_ess(np.log(np.array([1.0, 1.0, 0.5, 0.5]))).value
    0.9
    """
    weight = _scaled(log_weight)
    if not np.any(weight > 0):
        return Estimate(0.0, np.inf)
    first, second = np.mean(weight), np.mean(weight**2)
    ess = first**2 / second
    relative = _mean(2 * weight / first - weight**2 / second).error
    return Estimate(float(ess), float(ess * relative))


def forward_ess(log_weight_exact: LogWeights) -> Estimate:
    r"""$1 / (E_{\pi_1}[w]\, E_{\pi_1}[1/w])$: the same share, seen from exact draws.

    Since $E_{\pi_1}[1/w] = 1/Z$ and $Z E_{\pi_1}[w] = E_q[w^2]$ it has the limit of
    `reverse_ess`, but a mode that q misses has draws here and drives it to zero. Zero if q has
    no density at some exact draw.

    Args:
        log_weight_exact: $\log w$ at exact draws from the target, up to a constant.

    >>> import numpy as np
    >>> forward_ess(np.log(np.array([1.0, 2.0]))).value  # 1 / (1.5 * 0.75)
    0.8888888888888888
    """
    if not np.all(np.isfinite(np.asarray(log_weight_exact))):
        return Estimate(0.0, np.inf)
    direct, inverse = _scaled(log_weight_exact), _scaled(-np.asarray(log_weight_exact))
    # Both were divided by their largest value: put the product of the two back in log space.
    spread = np.ptp(np.asarray(log_weight_exact, np.float64))
    ess = np.exp(-spread) / (direct.mean() * inverse.mean())
    relative = _mean(direct / direct.mean() + inverse / inverse.mean()).error
    return Estimate(float(ess), float(ess * relative))


def _scaled(log_weight: LogWeights) -> NDArray[np.float64]:
    """Weights over the largest of them; all zero where all are, all NaN where any is."""
    values = np.asarray(log_weight, np.float64)
    largest = np.max(values)
    return np.exp(values - largest) if not np.isneginf(largest) else np.zeros_like(values)


def _mean(values: NDArray[np.float64]) -> Estimate:
    mean = float(np.mean(values))
    if values.size < 2 or not np.isfinite(mean):
        return Estimate(mean, np.inf)
    return Estimate(mean, float(np.std(values, ddof=1) / np.sqrt(values.size)))
