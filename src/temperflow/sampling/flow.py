"""The control as a map from source to target, with the exact density of what it makes."""

import abc
from collections.abc import Callable

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from temperflow.models import ExactDivergence, signed_log_det, value_and_jacobian

# A control as the flow sees it: the velocity at (t, x, β).
Velocity = Callable[[Float[Array, ""], Float[Array, " dim"], Float[Array, ""]], Float[Array, " dim"]]


class Transported(eqx.Module):
    """Where a point went, the log-determinant of the way, and whether the two can be believed.

    `error` is the largest residual of the equations solved on the way (relative to the size of
    the step's arguments), zero where none had to be solved. It is infinite where a step turned
    space inside out (a determinant not positive): such a map is folded, the point has more than
    one origin, and one origin's determinant is not its density.
    """

    x: Float[Array, " dim"]
    log_det: Float[Array, ""]
    error: Float[Array, ""]


class Flow(eqx.Module):
    r"""The solution map of $\dot x = \mu_t(x, 1)$ from t = 0 to 1 and its inverse (MATH.md section 6)."""

    @abc.abstractmethod
    def forward(self, control: Velocity, x: Float[Array, " dim"]) -> Transported:
        """From the source to the target."""

    @abc.abstractmethod
    def inverse(self, control: Velocity, x: Float[Array, " dim"]) -> Transported:
        """The same map backwards; `log_det` is still the forward map's at the point found."""


class SteppedFlow(Flow):
    """A fixed number of one-step maps: the density is that of the very map that is simulated."""

    steps: eqx.AbstractVar[int]

    @abc.abstractmethod
    def advance(
        self, control: Velocity, t: Float[Array, ""], h: Float[Array, ""], x: Float[Array, " dim"]
    ) -> Float[Array, " dim"]:
        """One step."""

    def forward(self, control: Velocity, x: Float[Array, " dim"]) -> Transported:
        def step(way, index):
            x, jacobian = value_and_jacobian(lambda x: self._at(control, index, x), way.x)
            return _extended(way, x, jacobian, jnp.zeros((), x.dtype)), None

        with jax.default_matmul_precision("float32"):
            return jax.lax.scan(step, _standing(x), jnp.arange(self.steps))[0]

    def inverse(self, control: Velocity, x: Float[Array, " dim"]) -> Transported:
        def step(way, index):
            # The step taken backwards misses by a higher power of h: Newton has one turn to make, not three.
            guess = self._at(control, index + 1, way.x, -1.0)
            return _extended(way, *_newton(lambda x: self._at(control, index, x), way.x, guess)), None

        with jax.default_matmul_precision("float32"):
            return jax.lax.scan(step, _standing(x), jnp.arange(self.steps - 1, -1, -1))[0]

    def _at(
        self, control: Velocity, index: Array, x: Float[Array, " dim"], direction: float = 1.0
    ) -> Float[Array, " dim"]:
        h = jnp.asarray(1.0 / self.steps, x.dtype)
        return self.advance(control, index.astype(x.dtype) * h, direction * h, x)


class EulerFlow(SteppedFlow):
    r"""$x \leftarrow x + h\mu_t(x, 1)$, the paper's sampler.

    Args:
        steps: how many.

    >>> import jax.numpy as jnp
    >>> halve = lambda t, x, beta: -x  # (1 - 1/4)^4
    >>> [round(float(value), 4) for value in EulerFlow(4).forward(halve, jnp.ones(1)).x]
    [0.3164]
    """

    steps: int = eqx.field(static=True, default=250)

    def advance(
        self, control: Velocity, t: Float[Array, ""], h: Float[Array, ""], x: Float[Array, " dim"]
    ) -> Float[Array, " dim"]:
        return x + h * control(t, x, jnp.ones_like(t))


class RungeKuttaFlow(SteppedFlow):
    r"""The classical fourth-order step: where μ contracts fast, Euler's map misses the path by O(h).

    Args:
        steps: how many; each takes four looks at the control.

    >>> import jax.numpy as jnp
    >>> halve = lambda t, x, beta: -x
    >>> [round(float(value), 4) for value in RungeKuttaFlow(4).forward(halve, jnp.ones(1)).x]
    [0.3679]
    """

    steps: int = eqx.field(static=True, default=64)

    def advance(
        self, control: Velocity, t: Float[Array, ""], h: Float[Array, ""], x: Float[Array, " dim"]
    ) -> Float[Array, " dim"]:
        one, middle = jnp.ones_like(t), t + h / 2.0
        first = control(t, x, one)
        second = control(middle, x + h / 2.0 * first, one)
        third = control(middle, x + h / 2.0 * second, one)
        fourth = control(t + h, x + h * third, one)
        return x + h / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)


class AdaptiveFlow(Flow):
    r"""The continuous flow to a stated tolerance, $\log\det$ from $\int\nabla\cdot\mu\,dt$.

    Takes as many steps as the control is rough, and no determinants: $d^3$ work a step is saved.
    The divergence stays exact, at d derivatives a look at the control: a stochastic one would be
    cheaper by that factor, but its noise stands in the exponent of the weights, where it biases
    the evidence upwards. The density is right to some tens of tolerances, the errors of all steps
    together, not exactly: bounds made from it should be quoted with it. Solved by Tsitouras'
    5(4) pair (diffrax) under its step-size control, forwards and backwards alike.

    Args:
        tolerance: of a step, relative and absolute, for position and log-determinant together.
        max_steps: after which the point comes back as NaN.

    >>> import jax.numpy as jnp
    >>> gone = AdaptiveFlow(1e-6).forward(lambda t, x, beta: -x, jnp.ones(2))
    >>> round(float(gone.log_det), 3)
    -2.0
    """

    tolerance: float = eqx.field(static=True, default=1e-6)
    max_steps: int = eqx.field(static=True, default=4096)

    def forward(self, control: Velocity, x: Float[Array, " dim"]) -> Transported:
        return self._solve(control, x, 0.0, 1.0)

    def inverse(self, control: Velocity, x: Float[Array, " dim"]) -> Transported:
        back = self._solve(control, x, 1.0, 0.0)
        return eqx.tree_at(lambda end: end.log_det, back, -back.log_det)

    def _solve(self, control: Velocity, x: Float[Array, " dim"], start: float, end: float) -> Transported:
        divergence, no_key = ExactDivergence(), jax.random.key(0)

        def rate(t, state, args):
            velocity, traces = divergence(no_key, lambda x: control(t, x, jnp.ones_like(t)), state[0])
            return velocity, traces[0]

        with jax.default_matmul_precision("float32"):
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(rate),
                diffrax.Tsit5(),
                jnp.asarray(start, x.dtype),
                jnp.asarray(end, x.dtype),
                None,
                (x, jnp.zeros((), x.dtype)),
                stepsize_controller=diffrax.PIDController(rtol=self.tolerance, atol=self.tolerance),
                max_steps=self.max_steps,
                throw=False,
            )
        assert solution.ys is not None
        ok = solution.result == diffrax.RESULTS.successful
        x, log_det = jax.tree.map(lambda leaf: jnp.where(ok, leaf[-1], jnp.nan), solution.ys)
        return Transported(x, log_det, jnp.zeros((), x.dtype))


def _standing(x: Float[Array, " dim"]) -> Transported:
    zero = jnp.zeros((), x.dtype)
    return Transported(x, zero, zero)


def _extended(
    way: Transported, x: Float[Array, " dim"], jacobian: Float[Array, "dim dim"], residual: Float[Array, ""]
) -> Transported:
    """One more step on the way, through a map of this Jacobian."""
    sign, log_det = signed_log_det(jacobian)
    residual = jnp.where(sign > 0.0, residual, jnp.inf)
    return Transported(x, way.log_det + log_det, jnp.maximum(way.error, residual))


# Newton converges quadratically from near by when h∂μ is below one; ten iterations are plenty,
# and a step that needs more is not invertible in float32 and shows in `error`.
_NEWTON_ITERATIONS = 10


def _newton(
    step: Callable[[Float[Array, " dim"]], Float[Array, " dim"]], y: Float[Array, " dim"], guess: Float[Array, " dim"]
) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"], Float[Array, ""]]:
    """x with step(x) = y, the step's Jacobian there, and the relative residual."""

    def residual_of(value):
        return jnp.max(jnp.abs(value - y)) / (1.0 + jnp.max(jnp.abs(y)))

    def unfinished(carry):
        iteration, _, value, _ = carry
        return (iteration < _NEWTON_ITERATIONS) & (residual_of(value) > 4.0 * jnp.finfo(y.dtype).eps)

    def improve(carry):
        iteration, x, value, jacobian = carry
        x = x - jnp.linalg.solve(jacobian, value - y)
        return (iteration + 1, x, *value_and_jacobian(step, x))

    start = (jnp.asarray(0), guess, *value_and_jacobian(step, guess))
    _, x, value, jacobian = jax.lax.while_loop(unfinished, improve, start)
    return x, jacobian, residual_of(value)
