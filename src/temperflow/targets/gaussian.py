"""A correlated Gaussian: the target on which every estimator's answer is known."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.targets.base import Modes, Target


class CorrelatedGaussian(eqx.Module):
    r"""$\log\hat\pi(x) = -\frac12 |W (x - m)|^2$, unnormalised, covariance $(W^T W)^{-1}$.

    Args:
        mean: $m$.
        whitener: $W$, takes a draw less its mean to white noise.
        colourer: $W^{-1}$, takes white noise back.

    >>> import jax.numpy as jnp
    >>> gaussian = CorrelatedGaussian(
    ...     mean=jnp.ones(2), whitener=jnp.diag(jnp.array([1.0, 0.5])),
    ...     colourer=jnp.diag(jnp.array([1.0, 2.0])),
    ... )
    >>> float(gaussian.log_density(jnp.array([1.0, 5.0])))
    -2.0
    """

    mean: Float[Array, " dim"]
    whitener: Float[Array, "dim dim"]
    colourer: Float[Array, "dim dim"]

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """$\\log\\hat\\pi(x)$ at one point, in the dtype of `x`."""
        white = _product(self.whitener.astype(x.dtype), x - self.mean.astype(x.dtype))
        return -0.5 * jnp.sum(white**2)

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """`n` exact draws."""
        noise = jax.random.normal(key, (n, self.mean.size), self.mean.dtype)
        return self.mean[None, :] + _product(noise, self.colourer.T)


def correlated_gaussian(dim: int = 10, condition: float = 100.0) -> Target:
    r"""A Gaussian with a dense covariance, a mean off the origin and $\log Z \ne 0$.

    The covariance has the cosine waves of the DCT-II as eigenvectors, the longest wave with the
    largest variance, and eigenvalues spaced evenly in logarithm from $\sqrt\kappa$ down to
    $1/\sqrt\kappa$. Its determinant is 1; the normalising constant is left out on purpose, so
    $\log Z = \frac d2 \log 2\pi$, and an estimator that forgets it is caught.

    Args:
        dim: the dimension $d$, at least 1.
        condition: the condition number $\kappa$ of the covariance, at least 1 (with `dim=1` there
            is one eigenvalue, 1).
    """
    if dim < 1:
        raise ValueError(f"gaussian: got dim={dim}, expected at least 1")
    if not 1 <= condition < math.inf:
        raise ValueError(f"gaussian: got condition={condition}, expected a number of at least 1")
    waves = _cosine_waves(dim)
    deviations = condition ** np.linspace(0.25, -0.25, dim) if dim > 1 else np.ones(1)
    gaussian = CorrelatedGaussian(
        mean=jnp.asarray(np.where(np.arange(dim) % 2 == 0, 2.0, -1.0)),
        whitener=jnp.asarray(waves.T / deviations[:, None]),
        colourer=jnp.asarray(waves * deviations[None, :]),
    )
    return Target(
        gaussian.log_density,
        dim=dim,
        name="gaussian",
        sample=gaussian.sample,
        log_evidence=0.5 * dim * math.log(2 * math.pi),
        modes=Modes(centres=gaussian.mean[None, :], shares=jnp.ones(1)),
        source_scale=1.0,
        reference=f"Correlated Gaussian, condition number {condition:g}, unnormalised, exact.",
    )


def _cosine_waves(dim: int) -> np.ndarray:
    """The orthonormal cosine waves, one a column: a dense rotation without a random number."""
    place, wave = np.arange(dim)[:, None] + 0.5, np.arange(dim)[None, :]
    columns = np.cos(np.pi * place * wave / dim)
    return columns / np.linalg.norm(columns, axis=0, keepdims=True)


def _product(left: Float[Array, "..."], right: Float[Array, "..."]) -> Float[Array, "..."]:
    """A matrix product that no GPU may shorten to TF32, whoever calls."""
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)
