"""What a sampler hands back: points, their log weights, and what the weights say about the evidence."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from temperflow.proposals.weights import effective_sample_size, normalised, systematic_resample
from temperflow.sampling.pareto import pareto_khat

if TYPE_CHECKING:
    from xarray import DataTree


class Draws(eqx.Module):
    r"""Weighted draws from $\pi_1$ with the evidence they imply (MATH.md sections 5 and 6).

    Args:
        x: the points, one a row.
        log_weight: $\log w$. The flow's is $\log\hat\pi_1 - \log q$, nothing left out; otherwise
            any common constant, and zeros mean an equally weighted sample.
        log_evidence: the estimate of $\log Z$.
        log_evidence_error: its standard error.
        log_density: $\log\hat\pi_1$ at each point.
        log_proposal: $\log q$ at each point where the proposal has a density (the flow), else None.
        energy_calls: target evaluations spent, gradients included.

    >>> import jax.numpy as jnp
    >>> draws = Draws(jnp.eye(2), jnp.log(jnp.array([1.0, 3.0])), jnp.array(0.0), jnp.array(0.1),
    ...               jnp.zeros(2), None, 2)
    >>> round(draws.ess, 2)
    0.8
    >>> draws.resample(4, seed=0).x.shape
    (4, 2)
    >>> mean, error = draws.expect(lambda point: point)
    >>> mean.tolist()
    [0.25, 0.75]
    """

    x: Float[Array, "n dim"]
    log_weight: Float[Array, " n"]
    log_evidence: Float[Array, ""]
    log_evidence_error: Float[Array, ""]
    log_density: Float[Array, " n"]
    log_proposal: Float[Array, " n"] | None
    energy_calls: int = eqx.field(static=True)

    @property
    def ess(self) -> float:
        """Effective sample size as a share of n. It cannot see a mode that no draw found."""
        return float(effective_sample_size(self.log_weight))

    @property
    def khat(self) -> float:
        """Pareto shape of the weights' tail; above 0.7 the weighted averages are unreliable."""
        return pareto_khat(np.asarray(self.log_weight))

    def expect(
        self, function: Callable[[Float[Array, " dim"]], Float[Array, "..."]]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        r"""$\sum_i w_i f(x_i)/\sum_i w_i$ and its standard error, for `f` of one point.

        The error is the delta method's for independent draws, so ask the weighted draws: the
        repeated points of a resampled set would make it too small.
        """
        weight = normalised(self.log_weight)
        value = jax.vmap(function)(self.x)
        mean = jnp.tensordot(weight, value, axes=1)
        return mean, jnp.sqrt(jnp.tensordot(weight**2, (value - mean[None]) ** 2, axes=1))

    def resample(self, n: int, seed: int) -> "Draws":
        """`n` equally weighted draws, by systematic resampling."""
        return self._take(self._chosen(n, seed))

    def to_datatree(self, seed: int = 0) -> "DataTree":
        r"""A tree of one chain, as ArviZ reads it; attributes hold evidence, ESS, k-hat, calls.

        * `posterior`: `x`, as many equally weighted draws as there are weighted ones. Copies of
          a point stand side by side, so an ESS that looks at autocorrelation counts them as copies.
        * `sample_stats`: of those draws, one by one, `lp` ($\log\hat\pi_1$), `log_q` where it is
          known, and `log_weight`, the weight by which the draw was chosen: it is spent.
        * `weighted_posterior`: the draws as they came, with `log_weight`, `lp` and `log_q`.

        Args:
            seed: of the resampling between the two.
        """
        from arviz_base import from_dict  # here, not above: it brings xarray and takes a second

        chosen = self._chosen(self.x.shape[0], seed)
        groups = {
            "posterior": {"x": self.x[chosen]},
            "sample_stats": {name: value[chosen] for name, value in self._statistics().items()},
            "weighted_posterior": {"x": self.x, **self._statistics()},
        }
        tree = from_dict(
            {
                group: {name: np.asarray(value)[None] for name, value in variables.items()}
                for group, variables in groups.items()
            },
            dims={"x": ["x_dim"]},
            check_conventions=False,  # a single draw is a draw, not a transposed chain
            attrs={"/": self._summary()},
        )
        tree["sample_stats"]["log_weight"].attrs["note"] = "weight before resampling; spent"
        return tree

    def save(self, path: str | Path, seed: int = 0) -> None:
        """Write `to_datatree` as NetCDF; `xarray.open_datatree` reads it back."""
        # Named, because xarray would otherwise take whichever engine it finds first.
        self.to_datatree(seed).to_netcdf(path, engine="h5netcdf")

    def _chosen(self, n: int, seed: int) -> Int[Array, " n"]:
        return systematic_resample(jax.random.key(seed), self.log_weight, n)

    def _take(self, chosen: Int[Array, " m"]) -> "Draws":
        return Draws(
            self.x[chosen],
            jnp.zeros(chosen.shape, self.log_weight.dtype),
            self.log_evidence,
            self.log_evidence_error,
            self.log_density[chosen],
            None if self.log_proposal is None else self.log_proposal[chosen],
            self.energy_calls,
        )

    def _statistics(self) -> dict[str, Float[Array, " n"]]:
        known = {"log_weight": self.log_weight, "lp": self.log_density}
        return known if self.log_proposal is None else {**known, "log_q": self.log_proposal}

    def _summary(self) -> dict[str, float | int]:
        return {
            "log_evidence": float(self.log_evidence),
            "log_evidence_error": float(self.log_evidence_error),
            "ess": self.ess,
            "khat": self.khat,
            "energy_calls": self.energy_calls,
        }
