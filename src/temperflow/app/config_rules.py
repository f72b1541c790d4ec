"""What each number of a configuration must satisfy, asked before any compute."""

import itertools
import math
from typing import Any

from temperflow.app.config import Config


def rules(config: Config) -> list[tuple[str, Any, bool, str]]:
    """Name, value, whether it will do, and what would."""
    t, n, w, s, p = config.training, config.network, config.temperature, config.sampling, config.proposal
    counts = {
        "training.epochs": t.epochs,
        "training.iterations": t.iterations,
        "training.batch": t.batch,
        "training.walkers": t.walkers,
        "training.memory": t.memory,
        "network.width": n.width,
        "network.depth": n.depth,
        "network.free_energy_width": n.free_energy_width,
        "sampling.flow_steps": s.flow_steps,
        "sampling.anneal_steps": s.anneal_steps,
        "sampling.islands": s.islands,
    }
    positive = {
        "training.learning_rate": t.learning_rate,
        "training.clip": t.clip,
        "training.robust": t.robust,
        "training.weight_limit": t.weight_limit,
        "temperature.sharpness": w.sharpness,
        "path.scale": config.path.scale,
        "path.rate": config.path.rate,
        "source_scale": config.source_scale,
        "sampling.tolerance": s.tolerance,
        "network.output_scale": n.output_scale,
        "proposal.diffusion": p.diffusion,
        "proposal.adjusted_step": p.adjusted_step,
    }
    not_negative = {
        "proposal.scale": p.scale,
        "proposal.damping": p.damping,
        "proposal.xi_scale": p.xi_scale,
        "proposal.xi_damping": p.xi_damping,
        "proposal.adjusted_moves": p.adjusted_moves,
        "temperature.bias_rate": w.bias_rate,
        "training.followers": t.followers,
        "network.position_spread": n.position_spread,
        "network.time_spread": n.time_spread,
        "network.temperature_spread": n.temperature_spread,
    }
    # Without the raw inputs a function of no frequencies would see nothing.
    fewest = 0 if n.raw_inputs else 1
    frequencies = {
        "network.position_frequencies": n.position_frequencies,
        "network.time_frequencies": n.time_frequencies,
        "network.temperature_frequencies": n.temperature_frequencies,
    }
    edges = (w.cold_edge, w.hot_edge, w.edge)
    lengths = (len(t.horizons), len(t.horizon_iterations))
    rising = all(a < b for a, b in itertools.pairwise((0.0, *t.horizons))) and all(h <= 1.0 for h in t.horizons)
    fading = config.path.fading
    coarsest = n.position_coarsest
    return [
        *((name, value, value >= 1, "at least 1") for name, value in counts.items()),
        *(
            (name, value, value is None or 0 < value < math.inf, "a positive number")
            for name, value in positive.items()
        ),
        *((name, value, 0 <= value < math.inf, "zero or a positive number") for name, value in not_negative.items()),
        *((name, value, value >= fewest, f"at least {fewest}") for name, value in frequencies.items()),
        ("training.steps", t.steps, t.steps >= 2, "at least 2"),
        ("temperature.hottest", w.hottest, 0 < w.hottest <= 1, "an inverse temperature in (0, 1]"),
        ("temperature.edges", edges, 0 < w.cold_edge < w.hot_edge <= w.edge, "0 < cold_edge < hot_edge <= edge"),
        ("path.fading", fading, fading is None or 1 <= fading < math.inf, "at least 1"),
        (
            "network.position_coarsest",
            coarsest,
            coarsest is None or 0 < coarsest <= n.position_spread,
            "a positive number up to network.position_spread",
        ),
        ("path.start", config.path.start, 0 <= config.path.start < 1, "a time in [0, 1)"),
        ("path.widened", config.path.widened, 0 < config.path.widened <= 1, "a time in (0, 1]"),
        ("training.averaging", t.averaging, 0 <= t.averaging < 1, "a decay in [0, 1)"),
        ("training.warmup", t.warmup, 0 <= t.warmup < 1, "a share in [0, 1)"),
        ("training.resample_below", t.resample_below, 0 <= t.resample_below <= 1, "a share in [0, 1]"),
        ("sampling.resample_below", s.resample_below, 0 <= s.resample_below <= 1, "a share in [0, 1]"),
        ("training.probes", t.probes, t.probes in (None, 1, 2), "1, 2 or nothing"),
        ("training.horizons", lengths, lengths[0] == lengths[1], "one duration a horizon"),
        ("training.horizons", t.horizons, rising, "increasing times in (0, 1]"),
        ("training.horizon_iterations", t.horizon_iterations, min(t.horizon_iterations, default=0) >= 0, "counts"),
    ]
