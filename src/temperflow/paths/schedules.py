"""How far along the path we are at time t: increasing maps of [0, 1] onto [0, 1]."""

import abc

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Schedule(eqx.Module):
    """$s(t)$ of MATH.md section 1: increasing, $s(0) = 0$, differentiable."""

    @abc.abstractmethod
    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        """The progress at time t."""


class Identity(Schedule):
    """$s = t$, the paper's.

    >>> import jax.numpy as jnp
    >>> float(Identity()(jnp.array(0.25)))
    0.25
    """

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        return t


class Exponential(Schedule):
    r"""$s = (e^{ku} - 1)/(e^k - 1)$ with $u = (t - start)_+/(1 - start)$.

    MATH.md section 1. A large rate spends most of the time where the target is still nearly
    flat, which is where a mixture of narrow modes does its splitting.

    Args:
        rate: $k > 0$.
        start: the time before which nothing happens.

    >>> import jax.numpy as jnp
    >>> schedule = Exponential(rate=8.0, start=0.2)
    >>> [round(float(schedule(jnp.array(t))), 4) for t in (0.2, 0.6, 1.0)]
    [0.0, 0.018, 1.0]
    """

    rate: float
    start: float = 0.0

    def __check_init__(self):
        if not (self.rate > 0.0 and 0.0 <= self.start < 1.0):
            raise ValueError(f"expected rate > 0 and 0 <= start < 1; got {self.rate}, {self.start}")

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        # Not a maximum, whose derivative is halved at the start itself.
        u = jnp.where(t >= self.start, t - self.start, 0.0) / (1.0 - self.start)
        return jnp.expm1(self.rate * u) / jnp.expm1(self.rate)


class SmoothStep(Schedule):
    """$3u^2 - 2u^3$ with $u = min(t/end, 1)$: done at `end`, at rest at both ends.

    >>> import jax.numpy as jnp
    >>> float(SmoothStep(end=0.4)(jnp.array(0.2)))
    0.5
    """

    end: float

    def __check_init__(self):
        if not 0.0 < self.end <= 1.0:
            raise ValueError(f"end lies in (0, 1]; got {self.end}")

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        u = jnp.clip(t / self.end, 0.0, 1.0)
        return u**2 * (3.0 - 2.0 * u)


class Tabulated(Schedule):
    """A monotone cubic through given points: what an adapted schedule is stored as.

    Piecewise cubic Hermite with the slopes of Fritsch and Butland (SIAM J. Sci. Stat. Comput. 5,
    1984), so that an increasing table gives an increasing, continuously differentiable map.

    Args:
        times: increasing knots from 0 to 1.
        values: non-decreasing values at the knots.

    >>> import jax.numpy as jnp
    >>> table = Tabulated(jnp.array([0.0, 0.5, 1.0]), jnp.array([0.0, 0.1, 1.0]))
    >>> round(float(table(jnp.array(0.5))), 6)
    0.1
    """

    times: Float[Array, " knots"]
    values: Float[Array, " knots"]

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        widths, secants = jnp.diff(self.times), jnp.diff(self.values) / jnp.diff(self.times)
        slopes = _monotone_slopes(widths, secants)
        cell = jnp.clip(jnp.searchsorted(self.times, t, side="right") - 1, 0, widths.size - 1)
        h, left = widths[cell], self.values[cell]
        # Not clipped to [0, 1]: at a knot a clip halves the derivative.
        u = (t - self.times[cell]) / h
        a, b = slopes[cell] - secants[cell], slopes[cell + 1] - secants[cell]
        return left + h * u * (secants[cell] + (1.0 - u) * (a * (1.0 - u) - b * u))


class Adapted(Schedule):
    r"""$s = (e^{k v(t)} - 1)/(e^k - 1)$ with $v$ a table: a measured schedule.

    Levels of constant thermodynamic speed (MATH.md section 1) span orders of magnitude. Taken
    through an exponential, what is left to interpolate is nearly straight, so that $\dot s$ is as
    smooth as the measurement allows.

    Args:
        rate: $k > 0$.
        table: $v$, from 0 to 1.

    >>> import jax.numpy as jnp
    >>> straight = Tabulated(jnp.array([0.0, 0.5, 1.0]), jnp.array([0.0, 0.5, 1.0]))
    >>> schedule, t = Adapted(8.0, straight), jnp.array(0.6)
    >>> bool(jnp.isclose(schedule(t), Exponential(8.0)(t)))
    True
    """

    rate: float
    table: Tabulated

    @staticmethod
    def of_levels(levels: Float[np.ndarray, " knots"], start: float = 0.0) -> "Adapted":
        """Through increasing levels from 0 to 1, those past the first at equal intervals of time from `start` on.

        The target begins to matter at the first of them that is not zero. A path that turned
        there abruptly would ask for a control with a jump in time: the target enters `LEAD`
        e-folds earlier, and until then its share grows exponentially, as it goes on to do.

        >>> import numpy as np
        >>> schedule = Adapted.of_levels(np.array([0.0, 0.01, 0.1, 1.0]), start=0.4)
        >>> [round(float(schedule(jnp.array(t))), 3) for t in (0.0, 0.6, 0.8, 1.0)]
        [0.0, 0.01, 0.1, 1.0]
        """
        intervals = levels.size - 1
        times = start + (1.0 - start) * np.arange(1, intervals + 1) / intervals
        rate = exponential_rate(levels) + LEAD
        table = np.log1p(levels * np.expm1(rate)) / rate
        knots = np.concatenate([[0.0], times])
        return Adapted(rate, Tabulated(jnp.asarray(knots, jnp.float32), jnp.asarray(table, jnp.float32)))

    def __call__(self, t: Float[Array, ""]) -> Float[Array, ""]:
        return jnp.expm1(self.rate * self.table(t)) / jnp.expm1(self.rate)


# At a hundredth of the share at which it has an effect of order one, the target has none that matters.
LEAD = float(np.log(100.0))
# From nearly a straight line on; finer than any measurement of the levels.
_RATES = np.linspace(0.01, 20.0, 2000)


def exponential_rate(levels: Float[np.ndarray, " knots"]) -> float:
    r"""k of the exponential nearest to levels at equal intervals, least squares in $\log s$.

    >>> import numpy as np
    >>> round(exponential_rate(np.expm1(6.0 * np.linspace(0.0, 1.0, 9)) / np.expm1(6.0)), 1)
    6.0
    """
    u = np.linspace(0.0, 1.0, levels.size)[1:-1]
    if not u.size:
        return 1.0
    tried = np.log(np.expm1(_RATES[:, None] * u) / np.expm1(_RATES[:, None]))
    misfit = np.sum((tried - np.log(levels[1:-1])) ** 2, axis=1)
    return float(_RATES[np.argmin(misfit)])


def _monotone_slopes(widths: Float[Array, " cells"], secants: Float[Array, " cells"]) -> Float[Array, " knots"]:
    """Weighted harmonic means of neighbouring secants inside, the secants themselves at the ends."""
    left, right = secants[:-1], secants[1:]
    weight = (widths[:-1] + 2.0 * widths[1:]) / (3.0 * (widths[:-1] + widths[1:]))
    product = left * right
    safe = jnp.where(product > 0.0, weight * right + (1.0 - weight) * left, 1.0)
    inner = jnp.where(product > 0.0, product / safe, 0.0)
    return jnp.concatenate([secants[:1], inner, secants[-1:]])
