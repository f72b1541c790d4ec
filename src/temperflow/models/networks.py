"""The three learned functions: control μ, free energy F and the path's own potential."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.models.carried import bias_of, carry
from temperflow.models.features import FourierFeatures
from temperflow.paths import Expansion

Field = Callable[[Float[Array, " dim"]], Float[Array, " dim"]]


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

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.models import FourierFeatures
    >>> position = FourierFeatures(jax.random.key(0), dim=2, count=4, spread=0.1, raw_scale=10.0)
    >>> network = Network(jax.random.key(1), outputs=3, width=8, depth=2, position=position)
    >>> t, x, beta = jnp.array(0.5), jnp.array([1.0, 2.0]), jnp.array(1.0)
    >>> _, jacobian = network.value_and_jacobian(t, x, beta)
    >>> bool(jnp.allclose(jacobian, jax.jacfwd(lambda x: network(t, x, beta))(x), atol=1e-5))
    True
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
        hidden = self._features(t, x, beta)
        *inner, last = self.mlp.layers
        for layer in inner:
            hidden = jax.nn.silu(hidden @ layer.weight.T + bias_of(layer))
        return hidden @ last.weight.T + bias_of(last)

    def value_and_jacobian(
        self, t: Float[Array, ""], x: Float[Array, " dim"], beta: Float[Array, ""]
    ) -> tuple[Float[Array, " outputs"], Float[Array, "outputs dim"]]:
        """The output and its Jacobian in x, from one forward pass that carries both."""
        value, columns = self._carried(self.position, t, x, beta)
        return value, columns.T

    def value_and_rate(
        self, t: Float[Array, ""], x: Float[Array, " dim"], beta: Float[Array, ""]
    ) -> tuple[Float[Array, " outputs"], Float[Array, " outputs"]]:
        """The output and its derivative in t, from one forward pass that carries both."""
        value, rate = self._carried(self.time, t, x, beta)
        return value, rate[0]

    def _features(
        self, t: Float[Array, ""], x: Float[Array, " dim"], beta: Float[Array, ""]
    ) -> Float[Array, " features"]:
        parts = ((self.position, x), (self.time, t[None]), (self.temperature, beta[None]))
        return jnp.concatenate([features(value) for features, value in parts if features is not None])

    def _carried(
        self, moving: FourierFeatures | None, t: Float[Array, ""], x: Float[Array, " dim"], beta: Float[Array, ""]
    ) -> tuple[Float[Array, " outputs"], Float[Array, "directions outputs"]]:
        """Value and derivatives in the coordinates that `moving` are the features of."""
        if moving is None:
            raise ValueError("this network does not see the coordinate that it is to be differentiated in")
        weight = self.mlp.layers[0].weight
        # The columns of the first layer that read the moving features; the others' derivatives are zero.
        before = 0
        for part in (self.position, self.time, self.temperature):
            if part is moving:
                break
            before += 0 if part is None else part.size
        after = weight.shape[1] - before - moving.size
        maps, constants = moving.derivative_maps(weight[:, before : before + moving.size])
        maps = jnp.pad(maps, ((0, 0), (0, 0), (before, after)))
        # One product of the features with W and every M_j, read as rows of a stack.
        rows = jnp.concatenate([weight[None], maps])
        product = self._features(t, x, beta) @ rows.reshape(-1, weight.shape[1]).T
        return carry(self.mlp.layers, product.reshape(rows.shape[:2]) + jnp.pad(constants, ((1, 0), (0, 0))))


class Control(eqx.Module):
    r"""The transport $\mu_t(x, \beta)$ (MATH.md section 2), a network times `output_scale`.

    Args:
        network: sees x, t and, for a tempered sampler, β.
        output_scale: the speed that an output of one means; about the domain's size.
        expansion: what carries the source while it widens, known in closed form: the network is
            left with the rest, $\mu = x\,d\log\sigma_t/dt + $ `output_scale` $\cdot$ network.

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
    expansion: Expansion | None = None

    def __call__(self, t: Float[Array, ""], x: Float[Array, " dim"], beta: Float[Array, ""]) -> Float[Array, " dim"]:
        learned = self.output_scale * self.network(t, x, beta)
        return learned if self.expansion is None else learned + self.expansion(t) * x

    def at(self, t: Float[Array, ""], beta: Float[Array, ""]) -> "Field":
        r"""$x \mapsto \mu_t(x, \beta)$, as what `value_and_jacobian` and `Divergence` take."""
        # A subclass has another formula: it is differentiated like any other callable.
        return Frozen(self, t, beta) if type(self) is Control else lambda x: self(t, x, beta)


class Frozen(eqx.Module):
    """A control at one time and temperature: a field that brings its own Jacobian.

    Args:
        control: $\\mu$.
        t: the time.
        beta: the inverse temperature.
    """

    control: Control
    t: Float[Array, ""]
    beta: Float[Array, ""]

    def __call__(self, x: Float[Array, " dim"]) -> Float[Array, " dim"]:
        return self.control(self.t, x, self.beta)

    def value_and_jacobian(self, x: Float[Array, " dim"]) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
        """As the function of this name, in one forward pass."""
        control = self.control
        value, jacobian = control.network.value_and_jacobian(self.t, x, self.beta)
        value, jacobian = control.output_scale * value, control.output_scale * jacobian
        if control.expansion is None:
            return value, jacobian
        rate = control.expansion(self.t)
        return value + rate * x, jacobian + rate * jnp.eye(x.size, dtype=x.dtype)


class FreeEnergy(eqx.Module):
    r"""$F_t(\beta) = t\,f_\theta(t, \beta)$: zero at t = 0 by construction (MATH.md section 2).

    Args:
        network: sees t and, for a tempered sampler, β; one output.

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.models import FourierFeatures
    >>> time = FourierFeatures(jax.random.key(0), dim=1, count=4, spread=1.0, raw_scale=1.0)
    >>> free_energy = FreeEnergy(Network(jax.random.key(1), outputs=1, width=8, depth=2, time=time))
    >>> t, beta = jnp.array(0.3), jnp.array(1.0)
    >>> bool(free_energy(jnp.array(0.0), beta) == 0.0)  # whatever the network
    True
    >>> bool(jnp.isclose(free_energy.rate(t, beta), jax.grad(free_energy)(t, beta), atol=1e-5))
    True
    """

    network: Network

    def __call__(self, t: Float[Array, ""], beta: Float[Array, ""]) -> Float[Array, ""]:
        return t * self.network(t, jnp.zeros(0, t.dtype), beta)[0]

    def rate(self, t: Float[Array, ""], beta: Float[Array, ""]) -> Float[Array, ""]:
        r"""$\partial_t F_t(\beta) = f_\theta + t\,\partial_t f_\theta$."""
        if type(self) is not FreeEnergy:  # as for the control
            return jax.jvp(lambda t: self(t, beta), (t,), (jnp.ones_like(t),))[1]
        value, rate = self.network.value_and_rate(t, jnp.zeros(0, t.dtype), beta)
        return (value + t * rate)[0]


class LearnedPotential(eqx.Module):
    r"""$U^\theta_t(x)$ of the learned path; the continuum multiplies it by $t(1-t)\beta$.

    Args:
        network: sees x and t; one output.

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.models import FourierFeatures
    >>> from temperflow.paths import Cached, Continuum, Identity
    >>> position = FourierFeatures(jax.random.key(0), dim=2, count=4, spread=0.1, raw_scale=10.0)
    >>> potential = LearnedPotential(Network(jax.random.key(1), outputs=1, width=8, depth=2, position=position))
    >>> path, x, one = Continuum(2, 1.0, Identity()), jnp.array([1.0, 2.0]), jnp.array(1.0)
    >>> cached = Cached(jnp.array(3.0), jnp.zeros(2))
    >>> with_it = [path.energy(t, one, x, cached, potential) for t in jnp.array([0.0, 0.5, 1.0])]
    >>> without = [path.energy(t, one, x, cached) for t in jnp.array([0.0, 0.5, 1.0])]
    >>> [bool(a == b) for a, b in zip(with_it, without)]  # it bends the path and leaves both ends alone
    [True, False, True]
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

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.models import FourierFeatures
    >>> keys = jax.random.split(jax.random.key(0), 4)
    >>> position, time = FourierFeatures(keys[0], 2, 8, 0.1, 10.0), FourierFeatures(keys[1], 1, 4, 1.0, 1.0)
    >>> control = Control(Network(keys[2], 2, 16, 2, position, time), output_scale=20.0)
    >>> model = Model(control, FreeEnergy(Network(keys[3], 1, 8, 1, time=time)), potential=None)
    >>> t, x, beta = jnp.array(0.5), jnp.zeros(2), jnp.array(1.0)
    >>> model.control(t, x, beta).shape, model.free_energy(t, beta).shape  # a velocity, and a number for all x
    ((2,), ())
    """

    control: Control
    free_energy: FreeEnergy
    potential: LearnedPotential | None
