"""Controlled underdamped Langevin dynamics: NETS underdamped and CTDS are one kernel."""

from jaxtyping import Array, Float, PRNGKeyArray

from temperflow.models import Model
from temperflow.proposals.base import Proposal
from temperflow.proposals.integrators import Dynamics, Integrator, Rates
from temperflow.proposals.joint import JointDensity, Walker
from temperflow.targets.base import Target


class Langevin(Proposal):
    r"""$dx = (\mu + \gamma_x b p/M_x)dt$, $d\xi = \gamma_\xi p_\xi/M_\xi dt$, with driven and damped momenta.

    MATH.md section 4. With tempering in the joint density this is CTDS. Without, ξ is frozen at
    zero and it is the underdamped sampler of NETS (Albergo and Vanden-Eijnden 2024).

    Args:
        joint: the density in (x, ξ) and its Hamiltonian.
        target: supplies $(U_1, \nabla U_1)$.
        rates: γ and ε.
        integrator: `Splitting` for exact weights, `EulerMaruyama` for the paper's.

    >>> import jax, jax.numpy as jnp
    >>> from temperflow.paths import Continuum, Identity
    >>> from temperflow.proposals.integrators import Splitting
    >>> target = Target(lambda x: -jnp.sum(x**2), dim=2)
    >>> joint = JointDensity(Continuum(2, 1.0, Identity()), tempering=None)
    >>> proposal = Langevin(joint, target, Rates(), Splitting())
    >>> walker = proposal.init(jax.random.key(0))
    >>> walker.x.shape, float(walker.xi), float(walker.log_weight)
    ((2,), 0.0, 0.0)
    """

    joint: JointDensity
    target: Target
    rates: Rates
    integrator: Integrator

    @property
    def calls_per_step(self) -> int:
        return self.integrator.calls_per_step

    def move(
        self,
        key: PRNGKeyArray,
        t: Float[Array, ""],
        h: Float[Array, ""],
        walker: Walker,
        model: Model,
    ) -> Walker:
        dynamics = Dynamics(self.joint, self.rates, self.look)
        return self.integrator.move(key, t, h, walker, model, dynamics)
