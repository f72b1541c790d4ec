"""The three learned functions: control μ, free energy F and the path's own potential."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.models.features import FourierFeatures


class Network(eqx.Module):
    """An MLP with SiLU units over the features of whichever of (x, t, β) it may see.

    Args:
        key: initial weights.
        outputs: size of the output.
        width: units a hidden layer.
        depth: hidden layers.
        position: features of x, or None for a function that ignores it; likewise
        time: features of t and
        temperature: features of β.
    """

    position: FourierFeatures | None
    time: FourierFeatures | None
    temperature: FourierFeatures | None
    mlp: eqx.nn.MLP

    def __init__(
        self,
        key: PRNGKeyArray,
        outputs: int,
        width: int,
        depth: int,
        position: FourierFeatures | None = None,
        time: FourierFeatures | None = None,
        temperature: FourierFeatures | None = None,
    ):
        self.position, self.time, self.temperature = position, time, temperature
        size = sum(part.size for part in (position, time, temperature) if part is not None)
        self.mlp = eqx.nn.MLP(size, outputs, width, depth, activation=jax.nn.silu, key=key)

    def __call__(
        self, t: Float[Array, ""], x: Float[Array, " dim"], beta: Float[Array, ""]
    ) -> Float[Array, " outputs"]:
        parts = ((self.position, x), (self.time, t[None]), (self.temperature, beta[None]))
        seen = [features(value) for features, value in parts if features is not None]
        return self.mlp(jnp.concatenate(seen))


class Control(eqx.Module):
    r"""The transport $\mu_t(x, \beta)$ (MATH.md section 2), a network times `output_scale`.

    Args:
        network: sees x, t and, for a tempered sampler, β.
        output_scale: the speed that an output of one means; about the domain's size.

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.models import FourierFeatures
    >>> keys = jax.random.split(jax.random.key(0), 3)
    >>> position = FourierFeatures(keys[0], 2, 8, 0.1, 10.0)
    >>> time = FourierFeatures(keys[1], 1, 4, 1.0, 1.0)
    >>> control = Control(Network(keys[2], 2, 16, 2, position, time), output_scale=20.0)
    >>> control(jnp.array(0.5), jnp.zeros(2), jnp.array(1.0)).shape
    (2,)
    """

    network: Network
    output_scale: float

    def __call__(self, t: Float[Array, ""], x: Float[Array, " dim"], beta: Float[Array, ""]) -> Float[Array, " dim"]:
        return self.output_scale * self.network(t, x, beta)


class FreeEnergy(eqx.Module):
    r"""$F_t(\beta) = t\,f_\theta(t, \beta)$: zero at t = 0 by construction (MATH.md section 2).

    Args:
        network: sees t and, for a tempered sampler, β; one output.
    """

    network: Network

    def __call__(self, t: Float[Array, ""], beta: Float[Array, ""]) -> Float[Array, ""]:
        return t * self.network(t, jnp.zeros(0, t.dtype), beta)[0]


class LearnedPotential(eqx.Module):
    r"""$U^\theta_t(x)$ of the learned path; the continuum multiplies it by $t(1-t)\beta$.

    Args:
        network: sees x and t; one output.
    """

    network: Network

    def __call__(self, t: Float[Array, ""], x: Float[Array, " dim"]) -> Float[Array, ""]:
        return self.network(t, x, jnp.ones((), t.dtype))[0]


class Model(eqx.Module):
    """Everything that is learned.

    Args:
        control: $\\mu$.
        free_energy: $F$.
        potential: $U^\\theta$; None for a fixed path.
    """

    control: Control
    free_energy: FreeEnergy
    potential: LearnedPotential | None
