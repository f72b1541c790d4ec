"""What a peer needs to compute the very same loss: weights, a batch, the path; as plain arrays by name."""

from pathlib import Path
from typing import Any

import jax
import numpy as np

from temperflow.models import FourierFeatures, Model, Network
from temperflow.paths import Continuum, Identity
from temperflow.training import Location


def network_arrays(prefix: str, network: Network) -> dict[str, np.ndarray]:
    """Layers and frequencies by name; a part without features has none."""
    found = {}
    for index, layer in enumerate(network.mlp.layers):
        found[f"{prefix}.layer{index}.weight"] = np.asarray(layer.weight)
        found[f"{prefix}.layer{index}.bias"] = np.asarray(layer.bias)
    for name in ("position", "time", "temperature"):
        features: FourierFeatures | None = getattr(network, name)
        if features is not None:
            found[f"{prefix}.{name}"] = np.asarray(features.frequencies)
            if features.raw_scale is not None:
                found[f"{prefix}.{name}_scale"] = np.asarray(features.raw_scale, np.float32)
    return found


def model_arrays(model: Model) -> dict[str, np.ndarray]:
    """All networks of a model."""
    found = network_arrays("control", model.control.network)
    found["output_scale"] = np.asarray(model.control.output_scale, np.float32)
    found |= network_arrays("free_energy", model.free_energy.network)
    if model.potential is not None:
        found |= network_arrays("potential", model.potential.network)
    return found


def location_arrays(location: Location, prefix: str = "") -> dict[str, np.ndarray]:
    """Locations, flat."""
    flat = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[location.t.ndim :]), location)
    return {
        f"{prefix}t": flat.t,
        f"{prefix}x": flat.x,
        f"{prefix}beta": flat.beta,
        f"{prefix}energy": flat.cached.energy,
        f"{prefix}gradient": flat.cached.gradient,
    }


def path_arrays(continuum: Continuum) -> dict[str, np.ndarray]:
    """The paper's path, which is all that the peers know: linear, s = t, a source that does not widen."""
    plain = isinstance(continuum.schedule, Identity) and continuum.widening is None
    if not plain:
        raise ValueError("the peers know the paper's path only: linear in t, from a source of fixed width")
    return {"source_scale": np.asarray(continuum.source_scale, np.float32)}


def save(path: Path, arrays: dict[str, Any]) -> None:
    """To a file that the peer reads; nothing in it can execute."""
    np.savez(path, **arrays)
