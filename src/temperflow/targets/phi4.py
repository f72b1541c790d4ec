"""Scalar field theory on a periodic square lattice: phi^4 in two dimensions."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.targets.base import Target


class Phi4(eqx.Module):
    r"""The Euclidean action of $\phi^4$ theory on an $L \times L$ torus, as an energy:

    $$S(\phi) = \sum_x \Big[ \sum_{\mu=1}^{2} (\phi_{x+\hat\mu} - \phi_x)^2
      + m^2 \phi_x^2 + \lambda \phi_x^4 \Big].$$

    The convention is that of Albergo, Kanwar & Shanahan 2019 (arXiv:1904.12072) and of the tutorial
    arXiv:2101.08176: **no factor 1/2** before the kinetic and the mass term, no $1/4!$ before
    $\lambda$; every site has two forward links, so on $L = 2$ a neighbour is linked twice and on
    $L = 1$ the kinetic term is zero. Their
    $\sum_x \phi_x \sum_\mu (2\phi_x - \phi_{x+\hat\mu} - \phi_{x-\hat\mu})$ is the same sum,
    rearranged; the squares here lose no digits to cancellation. The other common form,
    $-2\kappa\sum\phi_x\phi_{x+\hat\mu} + (1 - 2\lambda')\phi^2 + \lambda'\phi^4$, is this one for
    $\phi \to \sqrt\kappa\,\phi$, $m^2 = (1-2\lambda')/\kappa - 4$, $\lambda = \lambda'/\kappa^2$.

    A point is the lattice read row by row.

    Args:
        length: $L$; the dimension is $L^2$.
        mass_squared: $m^2$, negative for two wells at every site.
        coupling: $\lambda \ge 0$.

    >>> import jax.numpy as jnp
    >>> theory = Phi4(length=2, mass_squared=-4.0, coupling=8.0)
    >>> float(theory.log_density(jnp.array([1.0, 0.0, 0.0, 0.0])))  # 4 links - 4 + 8
    -8.0
    """

    length: int = eqx.field(static=True)
    mass_squared: float = eqx.field(static=True)
    coupling: float = eqx.field(static=True)

    def log_density(self, x: Float[Array, " dim"]) -> Float[Array, ""]:
        """$-S(\\phi)$ at one configuration."""
        field = x.reshape(self.length, self.length)
        links = sum(jnp.sum((jnp.roll(field, -1, axis) - field) ** 2) for axis in (0, 1))
        squares = field**2
        return -(links + jnp.sum(squares * (self.mass_squared + self.coupling * squares)))

    def frequencies(self) -> np.ndarray:
        r"""$m^2 + \sum_\mu 4\sin^2(k_\mu/2)$ of each wave: the free action's eigenvalues."""
        axis = 4 * np.sin(np.pi * np.arange(self.length) / self.length) ** 2
        return self.mass_squared + axis[:, None] + axis[None, :]

    def sample_free(self, key: PRNGKeyArray, n: int) -> Float[Array, "n dim"]:
        """Exact draws of the free field, $\\lambda = 0$ and $m^2 > 0$: independent waves.

        The waves are cos + sin (Hartley's), real and orthonormal, so no complex number appears.
        """
        shape = (n, self.length, self.length)
        amplitude = jax.random.normal(key, shape) * jnp.asarray(0.5 / self.frequencies())[None] ** 0.5
        waves = jnp.fft.fft2(amplitude, norm="ortho")
        return (waves.real - waves.imag).reshape(n, self.length**2)


def phi4(length: int = 8, mass_squared: float = -4.0, coupling: float = 8.0) -> Target:
    """Two-dimensional phi^4 theory; the defaults are the tutorial's 8 x 8 lattice.

    There are no exact draws and no known evidence, except where a formula or a quadrature gives
    them: the free field (`coupling=0`, both) and a single site (`length=1`, the evidence).

    Args:
        length: sites along a side; the dimension is its square.
        mass_squared: $m^2$.
        coupling: $\\lambda$, positive, or 0 with a positive mass.
    """
    if length < 1:
        raise ValueError(f"phi4: got length={length}, expected at least 1")
    if not (coupling > 0 or (coupling == 0 and mass_squared > 0)):
        raise ValueError(
            f"phi4: got coupling={coupling} with mass_squared={mass_squared}, which has no finite "
            "evidence; expected coupling > 0, or coupling = 0 with mass_squared > 0"
        )
    theory = Phi4(length=length, mass_squared=mass_squared, coupling=coupling)
    return Target(
        theory.log_density,
        dim=length**2,
        name=f"phi4-{length}x{length}",
        sample=theory.sample_free if coupling == 0 else None,
        log_evidence=_log_evidence(theory),
        source_scale=1.0,
        reference=f"phi^4 theory, L={length}, m^2={mass_squared:g}, lambda={coupling:g}, action of "
        "Albergo, Kanwar & Shanahan 2019, arXiv:1904.12072. Unnormalised.",
    )


def phi4_ordered() -> Target:
    """The 14 x 14 lattice of the flow-transport benchmarks: the field has two signs to choose from.

    m^2 = -4.75 and lambda = 5.1 put it in the ordered phase, where the mean field is bimodal and a
    local sampler stays on the side it started.
    """
    target = phi4(length=14, mass_squared=-4.75, coupling=5.1)
    return dataclasses.replace(
        target,
        name="phi4-ordered",
        reference=target.reference + " Parameters of CRAFT, arXiv:2201.13117.",
    )


def _log_evidence(theory: Phi4) -> float | None:
    if theory.coupling == 0:
        return float(0.5 * np.sum(np.log(math.pi / theory.frequencies())))
    if theory.length == 1:
        return _single_site_log_evidence(theory.mass_squared, theory.coupling)
    return None


def _single_site_log_evidence(mass_squared: float, coupling: float) -> float:
    """log of the integral of exp(-m^2 u^2 - lambda u^4), by Gauss-Legendre quadrature."""
    depth = min(mass_squared, 0.0) ** 2 / (4 * coupling)
    # lambda (u^2 + m^2 / 2 lambda)^2 is 60 at this edge, so e^-60 of the peak is left out.
    edge = math.sqrt(max(-mass_squared, 0.0) / (2 * coupling) + math.sqrt(60 / coupling))
    nodes, weights = np.polynomial.legendre.leggauss(400)
    u = edge * nodes
    peak_one = np.exp(-(mass_squared * u**2 + coupling * u**4) - depth)
    return float(depth + np.log(edge * np.sum(weights * peak_one)))
