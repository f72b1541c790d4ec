"""Is this machine fit to compute weights? Versions, devices, identities that must hold, digits that must be there."""

import math
from typing import Any

import jax

from temperflow.app import doctor_identities, doctor_precision
from temperflow.app.manifest import versions

# The seeds are fixed, so a sound machine always sees about the same scores, all under 2.5; what
# the planted errors of the tests score is over 10.
WORST_SCORE = 5.0


def examine() -> dict[str, Any]:
    """Everything `temperflow doctor` tells, as plain values; `ok` is true if every check held.

    * `versions`, `devices`: what computes here.
    * `exact_weights`: log mean path weight less the true $\\log Z_T/Z_0$, with its standard error
      and their ratio z, for every proposal at ten coarse steps with an untrained control.
    * `invariance`: the largest score among moments that the proposal must leave alone.
    * `precision`: relative errors against float64 on the host.
    * `checks`: the same as rows for people.

    Energies, path weights and log-determinants are computed in full float32 on every machine, the
    control that moves walkers and draws included. Only the matrix products of a training step may be
    shortened (to TF32, on a GPU), as JAX's own default has it: the residual tolerates that, weights do not.
    """
    weights, invariance = doctor_identities.examined()
    precision = doctor_precision.examined()
    checks = [
        *(_exact(name, found) for name, found in weights.items()),
        *(_invariant(name, score) for name, score in invariance.items()),
        *(_precise(name, error) for name, error in precision.items()),
    ]
    return {
        "ok": all(check["ok"] for check in checks),
        "versions": versions(),
        "devices": [_described(device) for device in jax.devices()],
        "exact_weights": {name: {key: _plain(value) for key, value in row.items()} for name, row in weights.items()},
        "invariance": {name: {"z": _plain(score)} for name, score in invariance.items()},
        "precision": {name: _plain(error) for name, error in precision.items()},
        "checks": checks,
    }


def _exact(name: str, found: dict[str, float]) -> dict[str, Any]:
    measured = f"{found['error']:+.4f} ± {found['standard_error']:.4f}, z = {found['z']:+.2f}"
    ok = abs(found["z"]) < WORST_SCORE
    return _row(f"weights, {name}", ok, measured, "log mean weight less the exact log ratio of normalisers")


def _invariant(name: str, score: float) -> dict[str, Any]:
    return _row(
        f"invariance, {name}", score < WORST_SCORE, f"z = {score:.2f}", "the worst of the moments that must stay"
    )


def _precise(name: str, error: float) -> dict[str, Any]:
    meaning, tolerance = doctor_precision.MEANINGS[name], doctor_precision.TOLERANCE
    return _row(f"precision, {name.replace('_', ' ')}", error < tolerance[name], f"{error:.1e}", meaning)


def _row(name: str, ok: bool, measured: str, meaning: str) -> dict[str, Any]:
    return {"name": name, "ok": bool(ok), "measured": measured, "meaning": meaning}


def _described(device: Any) -> dict[str, Any]:
    memory = (device.memory_stats() or {}).get("bytes_limit")
    return {"kind": device.device_kind, "platform": device.platform, "id": device.id, "memory_bytes": memory}


def _plain(value: float) -> float | None:
    """JSON has no word for what is not a number; nothing passes a check with it either."""
    return float(value) if math.isfinite(value) else None
