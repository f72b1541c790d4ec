"""Everything that decides a run, as plain data: what `config.json` holds and the command line sets."""

import dataclasses
import difflib
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

Kind = TypeVar("Kind", bound="Section")


class Section:
    """A group of settings that knows its way to JSON and back, and refuses what it does not know."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dictionaries."""
        return dataclasses.asdict(self)  # pyright: ignore[reportArgumentType]

    @classmethod
    def from_dict(cls: type[Kind], values: dict[str, Any]) -> Kind:
        """The inverse of `to_dict`; fields that are left out keep their defaults."""
        return cls(**_checked(cls, values, ""))

    def override(self: Kind, changes: dict[str, Any]) -> Kind:
        """The same with other values, each named by its path: `{"training.epochs": 20}`."""
        values = self.to_dict()
        for name, value in changes.items():
            *groups, last = name.split(".")
            level = values
            for group in groups:
                level = level.get(group)
                if not isinstance(level, dict):
                    raise ValueError(_unknown(name, _paths(self.to_dict())))
            if last not in level:
                raise ValueError(_unknown(name, _paths(self.to_dict())))
            level[last] = value
        return self.from_dict(values)


@dataclass(frozen=True)
class PathConfig(Section):
    """The continuum between source and target (MATH.md section 1)."""

    schedule: Literal["identity", "exponential", "survey"] = "survey"
    """How the target enters: s = t, exponentially, or at constant thermodynamic speed as a pilot measured it."""
    rate: float = 8.0
    """k of the exponential schedule."""
    start: float = 0.2
    """Time at which the target begins to matter; on an exponential schedule it does not enter before."""
    widen: bool = True
    """Whether the source grows to the domain's size on the way."""
    widened: float = 0.25
    """Time at which it has."""
    scale: float | None = None
    """The domain's size R; left out, a pilot run measures it."""
    fading: float | None = None
    """How many times faster than s the source's envelope goes; left out, as fast as a pilot run finds it should."""
    learned: bool = False
    """Whether the path has a learned potential."""
    learned_features: bool = True
    """Whether the learned potential sees Fourier features of (x, t), or the raw pair."""


@dataclass(frozen=True)
class TemperatureConfig(Section):
    """The map β(ξ) and the confinement of ξ (MATH.md sections 1 and 3)."""

    hottest: float = 0.05
    """Smallest inverse temperature."""
    cold_edge: float = 0.25
    """|ξ| up to which β is one."""
    hot_edge: float = 1.9
    """|ξ| from which β is the smallest."""
    edge: float = 2.0
    """|ξ| at which the walls begin."""
    sharpness: float = 10.0
    """Steepness of the walls."""
    bias_rate: float = 0.0
    """How fast the bias of ξ learns to keep its histogram flat; 0 is no bias."""


@dataclass(frozen=True)
class ProposalConfig(Section):
    """The dynamics that visit the training locations (MATH.md sections 4 and 5)."""

    kind: Literal["transport", "overdamped", "underdamped", "tempered"] = "tempered"
    """Control alone, NETS overdamped, NETS underdamped, or continuously tempered."""
    integrator: Literal["splitting", "euler"] = "splitting"
    """Exact path weights, or the paper's Euler-Maruyama scheme."""
    scale: float = 50.0
    """γ of position."""
    damping: float = 2.0
    """ε of position."""
    xi_scale: float = 20.0
    """γ of temperature."""
    xi_damping: float = 2.0
    """ε of temperature."""
    diffusion: float = 50.0
    """ε of the overdamped dynamics."""
    adjusted_moves: int = 0
    """Metropolis-adjusted Langevin moves after each step."""
    adjusted_step: float = 0.2
    """Their step at temperature one."""
    normaliser: Literal["exact", "paper"] = "exact"
    """Whether hot momenta are normalised; the paper leaves it out."""


@dataclass(frozen=True)
class NetworkConfig(Section):
    """The learned functions. Spreads are in cycles: of x per domain size, of t and β per unit."""

    width: int = 128
    """Units a hidden layer."""
    depth: int = 3
    """Hidden layers."""
    free_energy_width: int = 64
    """The same for F, which sees no position."""
    position_frequencies: int = 50
    """Fourier frequencies of x; half as many outputs again for sine and cosine."""
    position_spread: float = 2.0
    """Standard deviation of the finest, in cycles over the domain's size."""
    position_coarsest: float | None = 0.2
    """That of the coarsest, the others between the two; left out, all have the same."""
    time_frequencies: int = 10
    """Fourier frequencies of t."""
    time_spread: float = 1.0
    """Their standard deviation."""
    temperature_frequencies: int = 10
    """Fourier frequencies of β."""
    temperature_spread: float = 1.0
    """Their standard deviation."""
    raw_inputs: bool = True
    """Append x over the domain's size, t and β to the features."""
    carried: bool = True
    """Whether the source's own widening is built into the control, so that only the rest is learned."""
    output_scale: float | None = None
    """Speed that a control output of one means; left out, the domain's size."""


@dataclass(frozen=True)
class TrainingConfig(Section):
    """How long, with what, and how carefully."""

    epochs: int = 200
    """Rollouts, each followed by updates."""
    iterations: int = 60
    """Updates an epoch."""
    batch: int = 512
    """Locations an update."""
    walkers: int = 384
    """Particles a rollout."""
    followers: int = 128
    """As many more that follow the control alone, half onwards from the source and half back from the target."""
    steps: int = 100
    """Time steps a rollout."""
    memory: int = 4
    """Rollouts the buffer holds."""
    resample_below: float = 0.0
    """Effective share of walkers under which a rollout resamples; 0 is never."""
    optimiser: Literal["adam", "muon"] = "adam"
    """What turns gradients into updates."""
    learning_rate: float = 1e-2
    """Its highest value."""
    warmup: float = 0.01
    """Share of training over which it rises."""
    decay: Literal["cosine", "paper", "constant"] = "cosine"
    """How it falls: to nothing, by 3 % every 1000 iterations after 15000, or not at all."""
    clip: float | None = 1.0
    """Largest gradient norm."""
    weighted: bool = False
    """Weigh locations by their path weights (the paper's Jarzynski variant)."""
    weight_limit: float | None = None
    """Largest log weight that counts in full there; left out, none is cut."""
    robust: float | None = 3.0
    """Residual beyond which the loss grows linearly; left out, the plain square."""
    probes: int | None = None
    """Hutchinson probes for the divergence (1 or 2); left out, exact up to 16 dimensions."""
    averaging: float = 0.999
    """Decay of the parameters' moving average."""
    horizons: tuple[float, ...] = ()
    """Curriculum: how far in time training looks at first."""
    horizon_iterations: tuple[int, ...] = ()
    """How long at each horizon."""


@dataclass(frozen=True)
class SamplingConfig(Section):
    """How the trained control becomes draws."""

    flow: Literal["euler", "runge-kutta", "adaptive"] = "runge-kutta"
    """The map: with an exact density (the first two), or to a tolerance."""
    flow_steps: int = 64
    """Steps of the map."""
    tolerance: float = 1e-5
    """Of the adaptive map."""
    anneal_steps: int = 200
    """Steps of controlled annealing."""
    islands: int = 16
    """Independent populations, whose scatter is the evidence's error."""
    resample_below: float = 0.5
    """Effective share under which annealing resamples."""


@dataclass(frozen=True)
class Config(Section):
    """One run. A recipe is one of these with a name."""

    recipe: str = "ctds"
    """Which recipe this came from."""
    source_scale: float | None = None
    """σ₀ of the source N(0, σ₀² I); left out, the target's own."""
    path: PathConfig = field(default_factory=PathConfig)
    temperature: TemperatureConfig = field(default_factory=TemperatureConfig)
    proposal: ProposalConfig = field(default_factory=ProposalConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    sampling: SamplingConfig = field(default_factory=SamplingConfig)

    def __post_init__(self) -> None:
        from temperflow.app.config_rules import rules  # which needs these classes

        for name, number, fits, expected in rules(self):
            if not fits:
                raise ValueError(f"{name} is {number!r}; expected {expected}")


def _checked(section: type, values: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The values with their kinds checked, nested sections built."""
    hints = typing.get_type_hints(section)
    for name in values:
        if name not in hints:
            raise ValueError(_unknown(prefix + name, [prefix + known for known in hints]))
    return {name: _as_kind(hints[name], value, prefix + name) for name, value in values.items()}


def _as_kind(kind: Any, value: Any, name: str) -> Any:
    if isinstance(kind, type) and issubclass(kind, Section):
        if isinstance(value, kind):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"{name} is {value!r}; expected a group of settings")
        return kind(**_checked(kind, value, name + "."))
    if typing.get_origin(kind) is types.UnionType:
        if value is None:
            return None
        return _as_kind(next(k for k in typing.get_args(kind) if k is not type(None)), value, name)
    if typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            raise ValueError(f"{name} is {value!r}; expected one of {', '.join(typing.get_args(kind))}")
        return value
    if typing.get_origin(kind) is tuple:
        inner = typing.get_args(kind)[0]
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{name} is {value!r}; expected a list")
        return tuple(_as_kind(inner, item, name) for item in value)
    accepted = (int, float) if kind is float else (kind,)
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{name} is {value!r}; expected a value of type {kind.__name__}")
    return kind(value)


def _unknown(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"there is no setting {name!r}" + (f"; did you mean {nearest[0]!r}?" if nearest else "")


def _paths(values: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, value in values.items():
        found += _paths(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]
    return found
