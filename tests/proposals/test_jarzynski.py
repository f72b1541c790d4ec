"""E[e^A] = Z_T/Z_0 at finite step size, for a random untrained control and an arbitrary F (MATH.md section 5).

Each check asks for three standard errors: a false alarm in 0.27 % of the cases, so in 6.8 % of
all seeds for the 26 cases here together. The seeds are fixed.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

import exact_gaussian
from temperflow.paths import Cached
from temperflow.proposals import (
    JointDensity,
    Langevin,
    MetropolisAdjusted,
    Overdamped,
    Rates,
    Splitting,
    Transport,
    integrators,
)
from temperflow.proposals.weights import effective_sample_size

COUNT = 20_000
RATES = Rates(scale=1.0, damping=1.5, xi_scale=1.5, xi_damping=1.0)
KINDS = ("tempered", "underdamped", "overdamped")


def make(kind, path, **options):
    joint = exact_gaussian.joint_of(path, kind in ("tempered", "adjusted"), **options)
    match kind:
        case "overdamped":
            return Overdamped(joint, path.target, diffusion=0.7)
        case "transport":
            return Transport(joint, path.target)
        case "adjusted":
            return MetropolisAdjusted(Langevin(joint, path.target, RATES, Splitting()), step_size=0.5)
    return Langevin(joint, path.target, RATES, Splitting())


@pytest.fixture(scope="module")
def run():
    return exact_gaussian.runner(COUNT)


def deviation(run, proposal, path, model, steps, horizon=1.0):
    """How many standard errors log mean e^A lies from log Z_T/Z_0, and the share of effective weights."""
    walkers = run(proposal, jax.random.key(steps), model, steps, horizon)
    estimate, error = exact_gaussian.mean_weight(walkers.log_weight)
    exact = exact_gaussian.log_ratio(path, proposal.joint, model, horizon)
    return abs(estimate - exact) / error, effective_sample_size(walkers.log_weight)


def is_exact(*args, **options):
    """Within three standard errors, with weights even enough for that error to be believed."""
    off, effective = deviation(*args, **options)
    return off < 3.0 and effective > 0.05


@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_weight_is_exact_at_any_step_size(jarzynski_cases, run, kind, dim):
    path, model = jarzynski_cases[dim]
    proposal = make(kind, path)
    for steps in (10, 20, 50):
        assert is_exact(run, proposal, path, model, steps), steps


@pytest.mark.parametrize("kind", ["transport", "adjusted"])
def test_it_is_exact_for_the_flow_alone_and_between_metropolis_moves(jarzynski_cases, run, kind):
    path, model = jarzynski_cases[2]
    proposal = make(kind, path)
    for steps in (10, 20):
        assert is_exact(run, proposal, path, model, steps), steps


def test_it_is_exact_under_an_adaptive_bias_and_at_an_early_horizon(jarzynski_cases, run):
    path, model = jarzynski_cases[2]
    bias = jnp.array([0.0, 0.9, -0.6, 0.4, -1.1])
    proposal = make("tempered", path).with_bias(bias)
    assert exact_gaussian.log_ratio(path, proposal.joint, model, 1.0) != pytest.approx(
        exact_gaussian.log_ratio(path, make("tempered", path).joint, model, 1.0), abs=0.05
    )
    assert is_exact(run, proposal, path, model, 20)
    assert is_exact(run, proposal, path, model, 20, horizon=0.6)
    assert is_exact(run, make("tempered", path), path, model, 10, horizon=0.4)


class Dials(eqx.Module):
    """How much of each term the sabotaged kernel keeps; all at one is the healthy kernel."""

    determinant: float = 1.0
    heat: float = 1.0
    momentum_normaliser: float = 1.0
    temperature_in_constant: float = 1.0
    source_normaliser: float = 1.0


class Sabotaged(JointDensity):
    """The joint density with terms taken away: one compilation for all mutants, and for their healthy control."""

    dials: Dials = Dials()

    def potential(self, t, x, xi, cached: Cached, model):
        d, log_b, dials = self.continuum.dim, jnp.log(self.beta(xi)), self.dials
        share = 1.0 - self.continuum.schedule(t)
        constant = 0.5 * d * (jnp.log(2.0 * jnp.pi) + self.continuum.log_source_variance(t) - log_b)
        missing = (1.0 - dials.source_normaliser) * share * constant
        missing = missing - (1.0 - dials.temperature_in_constant) * share * 0.5 * d * log_b
        missing = missing - (1.0 - dials.momentum_normaliser) * 0.5 * d * log_b
        return super().potential(t, x, xi, cached, model) - missing


@pytest.fixture(scope="module")
def sabotaged_run():
    """A runner of its own: the shared one has already traced the healthy functions."""
    transported, refresh = integrators.transported, integrators._refresh

    def part_of_determinant(t, h, walker, model, joint):
        x, log_det = transported(t, h, walker, model, joint)
        return x, joint.dials.determinant * log_det

    def part_of_heat(key, h, walker, dynamics):
        walker, heat = refresh(key, h, walker, dynamics)
        return walker, dynamics.joint.dials.heat * heat

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(integrators, "transported", part_of_determinant)
        patch.setattr(integrators, "_refresh", part_of_heat)
        yield exact_gaussian.runner(COUNT)


@pytest.mark.parametrize(
    ("dials", "rejected"),
    [
        pytest.param({}, False, id="healthy"),
        pytest.param({"determinant": 0.0}, True, id="no log-determinant"),
        pytest.param({"heat": -1.0}, True, id="heat with the wrong sign"),
        pytest.param({"momentum_normaliser": 0.0}, True, id="no -(d/2) log beta"),
        pytest.param({"temperature_in_constant": 0.0}, True, id="c_t ignores beta"),
        pytest.param({"source_normaliser": 0.0}, True, id="no source normaliser"),
    ],
)
def test_the_same_check_rejects_every_mutant(jarzynski_cases, sabotaged_run, dials, rejected):
    path, model = jarzynski_cases[2]
    healthy = make("tempered", path).joint
    shares = jax.tree.map(jnp.asarray, Dials(**dials))
    joint = Sabotaged(healthy.continuum, healthy.tempering, healthy.mass, healthy.xi_mass, dials=shares)
    mutant = Langevin(joint, path.target, RATES, Splitting())
    if rejected:
        assert deviation(sabotaged_run, mutant, path, model, 20)[0] > 6.0
    else:
        assert is_exact(sabotaged_run, mutant, path, model, 20)
