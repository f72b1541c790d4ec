"""Mixtures of round Gaussians: the forty modes in their several published versions, and nine."""

from importlib import resources

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.targets.base import Modes, Target


class GaussianMixture(eqx.Module):
    r"""$\pi(x) = \sum_k w_k\, N(x;\ m_k,\ \sigma_k^2 I)$, normalised, with exact draws.

    Everything stays in logarithms and in differences $x - m_k$, so the gradient is finite and
    right however far $x$ is from every mode.

    Args:
        means: the centres $m_k$.
        scale: the standard deviation $\sigma$, one for all components or one for each.
        log_shares: $\log w_k$ up to a common constant; they are normalised where they are used.

    >>> import jax.numpy as jnp
    >>> pair = GaussianMixture(
    ...     means=jnp.array([[-3.0], [3.0]]), scale=jnp.array(0.5), log_shares=jnp.zeros(2)
    ... )
    >>> round(float(pair.log_density(jnp.array([3.0]))), 4)  # log(1/2) - log(0.5 sqrt(2 pi))
    -0.9189
    """

    means: Float[Array, "components dim"]
    scale: Float[Array, ""] | Float[Array, " components"]
    log_shares: Float[Array, " components"]

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """$\\log\\pi(x)$ at one point, in the dtype of `x`."""
        means, scale, log_shares = (part.astype(x.dtype) for part in (self.means, self.scale, self.log_shares))
        squares = jnp.sum((x[None, :] - means) ** 2, axis=1) / scale**2
        log_normaliser = x.size * (jnp.log(scale) + 0.5 * np.log(2 * np.pi).item())
        return jax.nn.logsumexp(jax.nn.log_softmax(log_shares) - log_normaliser - 0.5 * squares)

    @eqx.filter_jit
    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """`n` exact draws: a component, then its Gaussian."""
        choice_key, noise_key = jax.random.split(key)
        chosen = jax.random.categorical(choice_key, self.log_shares, shape=(n,))
        shape, dtype = (n, self.means.shape[1]), self.means.dtype
        scale = jnp.broadcast_to(self.scale, self.log_shares.shape)[chosen]
        noise = jax.random.normal(noise_key, shape, dtype)
        return self.means[chosen] + scale[:, None] * noise


def gmm40() -> Target:
    """Forty equal modes of standard deviation 0.25 in the plane: the CTDS paper's own text.

    Source N(0, 5 I), so that modes are found by the proposal and not by a wide start.
    """
    return _equal_mixture(
        "gmm40",
        _shipped_means("torch_seed0"),
        scale=0.25,
        source_scale=5**0.5,
        reference="CTDS paper, experiments: sigma 0.25, source N(0, 5 I); means of FAB, "
        "Midgley et al. 2023, arXiv:2208.01893. Normalised.",
    )


def gmm40_released() -> Target:
    """The forty modes of the CTDS paper's released code: variance 0.431, source N(0, 25 I)."""
    return _equal_mixture(
        "gmm40-released",
        _shipped_means("torch_seed0"),
        scale=(0.25 * 1.724) ** 0.5,
        source_scale=5.0,
        reference="CTDS released experiment: component variance 0.25 x 1.724, source N(0, 25 I). Normalised.",
    )


def gmm40_fab() -> Target:
    """The forty modes as FAB, iDEM and their successors use them: standard deviation 1.3133.

    Their sources differ from paper to paper; the source scale 40 here is this package's choice.
    """
    return _equal_mixture(
        "gmm40-fab",
        _shipped_means("torch_seed0"),
        scale=float(np.log1p(np.e)),  # softplus(1)
        source_scale=40.0,
        reference="FAB, Midgley et al. 2023, arXiv:2208.01893: sigma = softplus(1). Normalised.",
    )


def gmm40_jax(dim: int = 2) -> Target:
    """Forty modes of standard deviation 1, uniform in [-40, 40]^dim, source N(0, 40^2 I).

    The means are `jax.random.uniform` from `PRNGKey(0)` in float32, as the benchmark's code draws
    them. In two dimensions they come from the shipped table, which the generator reproduces. The
    bits behind a key changed once: JAX before 0.5 (`jax_threefry_partitionable` off) draws other
    means from the same key, so figures published with it are for other positions of the modes.

    Args:
        dim: the dimension, at least 1.
    """
    if dim < 1:
        raise ValueError(f"gmm40-jax: got dim={dim}, expected at least 1")
    shipped = _shipped_means("jax_prngkey0")
    return _equal_mixture(
        "gmm40-jax" if dim == 2 else f"gmm40-jax-{dim}",
        shipped if dim == 2 else _drawn_means(dim, check=shipped),
        scale=1.0,
        source_scale=40.0,
        reference="Blessing et al. 2024, 'Beyond ELBOs', arXiv:2406.07423; SCLD. Normalised.",
    )


def gmm9(scale: float = 0.1**0.5) -> Target:
    """Nine equal modes at {-5, 0, 5}^2, source N(0, I).

    A warm-up that papers state with several widths, hence the option.

    Args:
        scale: the standard deviation of a mode, 0.3162 (variance 0.1) unless told otherwise.
    """
    if not scale > 0:
        raise ValueError(f"gmm9: got scale={scale}, expected a positive standard deviation")
    axis = np.array([-5.0, 0.0, 5.0])
    return _equal_mixture(
        "gmm9",
        np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(9, 2),
        scale=scale,
        source_scale=1.0,
        reference="A 3 x 3 grid; centres as in Zhang & Chen 2022, arXiv:2111.15141. Normalised.",
    )


def _equal_mixture(name: str, means: np.ndarray, *, scale: float, source_scale: float, reference: str) -> Target:
    mixture = GaussianMixture(
        means=jnp.asarray(means),
        scale=jnp.asarray(scale, float),
        log_shares=jnp.zeros(len(means)),
    )
    # A component's share stands for the mass nearest its centre. Where neighbours overlap draws
    # stray across, but as many go as come: 3e-3 in total variation at worst (gmm40-fab).
    modes = Modes(centres=mixture.means, shares=jnp.full(len(means), 1 / len(means)))
    return Target(
        mixture.log_density,
        dim=means.shape[1],
        name=name,
        sample=mixture.sample,
        log_evidence=0.0,
        modes=modes,
        source_scale=source_scale,
        reference=reference,
    )


def _shipped_means(table: str) -> np.ndarray:
    """One of the tables of means that travel inside the package."""
    path = resources.files("temperflow.targets") / "data" / f"gmm40_means_{table}.csv"
    with path.open(encoding="utf-8") as lines:
        return np.loadtxt(lines, delimiter=",")


def _drawn_means(dim: int, *, check: np.ndarray) -> np.ndarray:
    """The benchmark's means in any dimension, or a refusal if this JAX draws different ones."""

    def draw(dim: int) -> np.ndarray:
        # float32 by name: with 64-bit mode on, the same key would give other numbers.
        key = jax.random.key(0, impl="threefry2x32")
        means = jax.random.uniform(key, (40, dim), jnp.float32, minval=-40.0, maxval=40.0)
        return np.asarray(means, np.float64)

    if not np.allclose(draw(check.shape[1]), check, rtol=0, atol=1e-5):
        raise RuntimeError(
            "gmm40-jax: got other means from PRNGKey(0) than the table shipped for 2 dimensions, "
            "expected the same; set jax_threefry_partitionable to True, or use dim=2"
        )
    return draw(dim)
