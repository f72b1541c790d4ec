"""From a configuration to the core's objects: the one place where settings turn into mathematics."""

import math
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from temperflow.app.config import Config, NetworkConfig, TrainingConfig
from temperflow.baselines.pilot import survey as run_survey
from temperflow.models import (
    Control,
    Divergence,
    ExactDivergence,
    FourierFeatures,
    FreeEnergy,
    HutchinsonDivergence,
    LearnedPotential,
    Model,
    Network,
)
from temperflow.paths import (
    Adapted,
    Confinement,
    Continuum,
    Expansion,
    Exponential,
    Identity,
    Schedule,
    SmoothStep,
    TemperatureMap,
    Widening,
)
from temperflow.paths.schedules import exponential_rate
from temperflow.proposals import (
    EulerMaruyama,
    JointDensity,
    Langevin,
    MetropolisAdjusted,
    Overdamped,
    Proposal,
    Rates,
    Splitting,
    Tempering,
    Transport,
)
from temperflow.sampling import AdaptiveFlow, EulerFlow, Flow, RungeKuttaFlow, Sampler
from temperflow.targets import Target
from temperflow.training import Curriculum, Loss, Trainer, TrainState
from temperflow.training.flat import by_matrices

# Up to here d forward derivatives cost less than the noise that probes bring in.
MOST_EXACT_DIMENSIONS = 16
BIAS_KNOTS = 33
# The envelope is down by this many nats at s = 1/(e^k - 1).
FADING = 1.0


@dataclass(frozen=True)
class Survey:
    """What a short pilot run learned about the target, without any truth.

    Args:
        scale: R, the root mean square of a coordinate.
        levels: progress values s at equal thermodynamic distances from N(0, R² I) to the target.
        energy_calls: what it cost.
    """

    scale: float
    levels: tuple[float, ...]
    energy_calls: int

    @property
    def rate(self) -> float:
        """k of the exponential schedule nearest to the levels."""
        return exponential_rate(np.asarray(self.levels))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Survey":
        return cls(float(values["scale"]), tuple(values["levels"]), int(values["energy_calls"]))


@dataclass(frozen=True)
class Built:
    """The core's objects for one run."""

    trainer: Trainer
    model: Model
    config: Config

    def sampler(self, state: TrainState) -> Sampler:
        """The sampler that a training state amounts to: the averaged parameters and the learned bias."""
        s = self.config.sampling
        flow: Flow
        match s.flow:
            case "euler":
                flow = EulerFlow(s.flow_steps)
            case "runge-kutta":
                flow = RungeKuttaFlow(s.flow_steps)
            case "adaptive":
                flow = AdaptiveFlow(s.tolerance)
        proposal = self.trainer.proposal_at(state)
        return Sampler(state.average, proposal, flow, s.anneal_steps, s.islands, s.resample_below)


def needs_survey(config: Config) -> bool:
    """Whether something is left open that only a pilot run can tell."""
    widens = config.path.widen and config.path.scale is None
    unscaled = config.path.scale is None and not config.path.widen and config.network.raw_inputs
    return widens or unscaled or config.path.schedule == "survey" or config.path.fading is None


def survey_of(config: Config, target: Target, seed: int) -> Survey:
    """Run the pilot: tempered SMC from ever wider starts until nothing more is found."""
    found, calls = run_survey(jax.random.key(seed), target, source_scale=_source_scale(config, target))
    return Survey(float(found.scale), tuple(float(s) for s in found.ladder.s), calls)


def build(config: Config, target: Target, survey: Survey | None, seed: int = 0, *, shapes_only: bool = False) -> Built:
    """Trainer, initial parameters and the way to a sampler.

    Args:
        config: all settings.
        target: what to sample.
        survey: the pilot's findings; needed if `needs_survey(config)`.
        seed: of the initial parameters.
        shapes_only: leave their values out, for whoever has others to put in their place: to draw
            them takes seconds.
    """
    scale = config.path.scale or (survey.scale if survey is not None else _source_scale(config, target))
    joint = _joint(config, target, scale, survey)
    t = config.training
    if t.probes is None and target.dim <= MOST_EXACT_DIMENSIONS:
        divergence: Divergence = ExactDivergence()
    else:
        divergence = HutchinsonDivergence(t.probes or 2)
    robust = t.robust if isinstance(divergence, ExactDivergence) else None
    make = partial(_model, jax.random.key(seed), config, joint.continuum, scale)
    model = eqx.filter_eval_shape(make) if shapes_only else make()
    trainer = Trainer(
        _proposal(config, target, joint),
        Loss(divergence, t.weighted, robust),
        _optimiser(t, model),
        Curriculum(t.horizons, t.horizon_iterations),
        t.walkers,
        t.steps,
        t.memory,
        t.iterations,
        t.batch,
        t.resample_below,
        t.averaging,
        config.temperature.bias_rate,
        jnp.inf if t.weight_limit is None else t.weight_limit,
        t.followers,
    )
    return Built(trainer, model, config)


def _source_scale(config: Config, target: Target) -> float:
    return target.source_scale if config.source_scale is None else config.source_scale


def _joint(config: Config, target: Target, scale: float, survey: Survey | None) -> JointDensity:
    path, heat = config.path, config.temperature
    source = _source_scale(config, target)
    # A domain no larger than the source needs no widening, and narrowing first would lose modes.
    widening = Widening(scale, SmoothStep(path.widened)) if path.widen and scale > source else None
    tempering = None
    if config.proposal.kind == "tempered":
        walls = Confinement(heat.edge, heat.sharpness, jnp.zeros(BIAS_KNOTS))
        tempering = Tempering(TemperatureMap(heat.hottest, heat.cold_edge, heat.hot_edge), walls)
    return JointDensity(
        Continuum(target.dim, source, _schedule(config, survey), widening, _fading(config, survey)),
        tempering,
        paper_normaliser=config.proposal.normaliser == "paper",
    )


def _schedule(config: Config, survey: Survey | None) -> Schedule:
    path = config.path
    if path.schedule == "identity":
        return Identity()
    if path.schedule == "exponential":
        return Exponential(path.rate, path.start)
    if survey is None:
        raise ValueError("path.schedule is 'survey'; expected the survey's levels to come with it")
    return Adapted.of_levels(np.asarray(survey.levels), path.start)


def _fading(config: Config, survey: Survey | None) -> float:
    r"""How fast the source's envelope goes: by the time the target's own tempered density holds the mass.

    On a schedule of rate k the target has an effect of order one from $s = 1/(e^k - 1)$ on.
    """
    if config.path.fading is not None:
        return config.path.fading
    if survey is None:
        raise ValueError("path.fading is left open; expected the survey's levels to come with it")
    return max(1.0, FADING * math.expm1(survey.rate))


def _proposal(config: Config, target: Target, joint: JointDensity) -> Proposal:
    p = config.proposal
    exact = p.integrator == "splitting"
    proposal: Proposal
    match p.kind:
        case "transport":
            proposal = Transport(joint, target, exact)
        case "overdamped":
            proposal = Overdamped(joint, target, p.diffusion, exact)
        case "underdamped" | "tempered":
            rates = Rates(p.scale, p.damping, p.xi_scale, p.xi_damping)
            proposal = Langevin(joint, target, rates, Splitting() if exact else EulerMaruyama())
    if p.adjusted_moves:
        # joint and target are properties there, which the checker takes for missing fields
        proposal = MetropolisAdjusted(  # pyright: ignore[reportCallIssue]
            proposal=proposal, step_size=p.adjusted_step, moves=p.adjusted_moves
        )
    return proposal


def _model(key: jax.Array, config: Config, continuum: Continuum, scale: float) -> Model:
    network, dim = config.network, continuum.dim
    for_control, for_free, for_potential = jax.random.split(key, 3)
    tempered = config.proposal.kind == "tempered"
    speed = scale if network.output_scale is None else network.output_scale
    control = _network(for_control, network, dim, scale, dim, sees_x=True, sees_beta=tempered)
    small = replace(network, width=network.free_energy_width)
    free_energy = _network(for_free, small, 1, scale, dim, sees_x=False, sees_beta=tempered)
    potential = None
    if config.path.learned:
        raw = not config.path.learned_features
        potential = LearnedPotential(_network(for_potential, network, 1, scale, dim, True, False, raw))
    expansion = None
    if network.carried and continuum.widening is not None:
        expansion = Expansion(continuum.source_scale, continuum.widening)
    return Model(Control(control, speed, expansion), FreeEnergy(free_energy), potential)


def _network(
    key: jax.Array,
    settings: NetworkConfig,
    outputs: int,
    scale: float,
    dim: int,
    sees_x: bool,
    sees_beta: bool,
    raw_only: bool = False,
) -> Network:
    for_x, for_t, for_beta, for_weights = jax.random.split(key, 4)
    raw = settings.raw_inputs or raw_only

    def features(
        key: jax.Array, size: int, count: int, spread: float, unit: float, coarsest: float | None = None
    ) -> FourierFeatures:
        return FourierFeatures(key, size, 0 if raw_only else count, spread, unit if raw else None, coarsest)

    # The phase of a frequency adds up over coordinates: its spread should not grow with them.
    per_unit = (2.0 / max(dim, 2)) ** 0.5 / scale
    finest, coarsest = settings.position_spread * per_unit, settings.position_coarsest
    coarsest = None if coarsest is None else coarsest * per_unit
    position = features(for_x, dim, settings.position_frequencies, finest, scale, coarsest) if sees_x else None
    time = features(for_t, 1, settings.time_frequencies, settings.time_spread, 1.0)
    beta = features(for_beta, 1, settings.temperature_frequencies, settings.temperature_spread, 1.0)
    return Network(for_weights, outputs, settings.width, settings.depth, position, time, beta if sees_beta else None)


def _optimiser(settings: TrainingConfig, model: Model) -> optax.GradientTransformation:
    total = settings.epochs * settings.iterations
    rate = settings.learning_rate
    match settings.decay:
        case "cosine":
            warmup = max(1, round(settings.warmup * total))
            rate = optax.warmup_cosine_decay_schedule(0.0, rate, warmup, max(total, warmup + 1))
        case "paper":
            rate = optax.exponential_decay(rate, 1000, 0.97, transition_begin=15_000, staircase=True)
        case "constant":
            pass
    update = optax.adam(rate) if settings.optimiser == "adam" else by_matrices(optax.contrib.muon(rate), model)
    return update if settings.clip is None else optax.chain(optax.clip_by_global_norm(settings.clip), update)
