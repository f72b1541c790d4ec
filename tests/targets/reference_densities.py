"""Each target's log density and its moments written out again, in numpy and double precision."""

import numpy as np
from scipy import special, stats

from temperflow.targets import mixtures

GMM_SCALES = {"gmm40": 0.25, "gmm40-released": 0.431**0.5, "gmm40-fab": 1.3133, "gmm40-jax": 1.0, "gmm9": 0.1**0.5}


def mixture_means(name):
    if name == "gmm9":
        return np.array([[x, y] for x in (-5.0, 0.0, 5.0) for y in (-5.0, 0.0, 5.0)])
    return mixtures._shipped_means("jax_prngkey0" if name == "gmm40-jax" else "torch_seed0")


def mixture(name):
    means = mixture_means(name)

    def log_density(x):
        parts = [stats.multivariate_normal(m, GMM_SCALES[name] ** 2 * np.eye(2)).logpdf(x) for m in means]
        return special.logsumexp(parts) - np.log(len(means))

    return log_density


def many_well(x):
    first, second = x[::2], x[1::2]
    return -np.sum(first**4 - 6 * first**2 - first / 2 + second**2 / 2)


def funnel(x):
    return stats.norm(0, 3).logpdf(x[0]) + np.sum(stats.norm(0, np.exp(x[0] / 2)).logpdf(x[1:]))


def phi4(length, mass_squared, coupling):
    def log_density(x):
        field = np.reshape(x, (length, length))
        action = 0.0
        for row in range(length):
            for column in range(length):
                here = field[row, column]
                action += (field[(row + 1) % length, column] - here) ** 2
                action += (field[row, (column + 1) % length] - here) ** 2
                action += mass_squared * here**2 + coupling * here**4
        return -action

    return log_density


def gaussian(x):
    """Covariance with cosine waves as axes and variances from √κ to 1/√κ, κ = 100, mean (2, -1, 2, ...)."""
    d = len(x)
    waves = np.array([[np.cos(np.pi * (i + 0.5) * k / d) for i in range(d)] for k in range(d)])
    waves /= np.linalg.norm(waves, axis=1, keepdims=True)
    variance = 10.0 ** np.linspace(1, -1, d)
    mean = np.where(np.arange(d) % 2 == 0, 2.0, -1.0)
    return -0.5 * np.sum((waves @ (x - mean)) ** 2 / variance)


LOG_DENSITIES = {
    **{name: mixture(name) for name in GMM_SCALES},
    "gaussian": gaussian,
    "many-well": many_well,
    "many-well-32": many_well,
    "funnel": funnel,
    "phi4": phi4(8, -4.0, 8.0),
    "phi4-ordered": phi4(14, -4.75, 5.1),
}


def gradient(log_density, x, width=1e-5):
    """Central differences in double precision."""
    steps = width * np.eye(len(x))
    return np.array([(log_density(x + step) - log_density(x - step)) / (2 * width) for step in steps])
