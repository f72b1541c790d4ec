"""The doctor finds a sound machine sound, and sees every planted fault; its exit status says so."""

import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from temperflow.app import cli, cli_tables, doctor, doctor_identities, doctor_precision
from temperflow.models import networks
from temperflow.proposals import integrators
from temperflow.targets import Target


@pytest.fixture(scope="module")
def found():
    return doctor.examine()


def failing(found):
    return {check["name"] for check in found["checks"] if not check["ok"]}


def test_a_sound_machine_is_ok_and_every_figure_is_there(found, capsys):
    assert found["ok"]
    assert set(found["exact_weights"]) == {"transport", "overdamped", "underdamped", "tempered"}
    for row in found["exact_weights"].values():
        assert set(row) == {"error", "standard_error", "z"}
        # Ten steps, an untrained control, and yet within a few hundredths of the truth.
        assert abs(row["error"]) < 0.04
        assert 1e-3 < row["standard_error"] < 0.02
        assert row["z"] == pytest.approx(row["error"] / row["standard_error"])
    assert set(found["invariance"]) == {"overdamped", "underdamped", "tempered"}
    assert set(found["precision"]) == set(doctor_precision.TOLERANCE)
    assert {"temperflow", "python", "jax", "jaxlib"} <= set(found["versions"])
    assert found["devices"][0]["kind"]
    assert len(found["checks"]) == 4 + 3 + 5
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    cli_tables.show_doctor(found)
    printed = capsys.readouterr().out
    assert "weights, tempered" in printed
    assert printed.rstrip().endswith("ok")


def test_a_wrong_integrator_is_seen_and_the_exit_status_is_3(found, monkeypatch, capsys):
    refresh = integrators._refresh

    def heat_with_the_wrong_sign(key, h, walker, dynamics):
        walker, heat = refresh(key, h, walker, dynamics)
        return walker, -heat

    monkeypatch.setattr(integrators, "_refresh", heat_with_the_wrong_sign)
    monkeypatch.setattr(doctor_precision, "examined", lambda: found["precision"])
    assert cli.main(["doctor", "--json"]) == 3
    sick = json.loads(capsys.readouterr().out)
    assert not sick["ok"]
    assert failing(sick) == {
        f"{what}, {name}" for what in ("weights", "invariance") for name in ("underdamped", "tempered")
    }
    assert min(abs(sick["exact_weights"][name]["z"]) for name in ("underdamped", "tempered")) > 10.0
    # What was not touched is as it was.
    assert sick["exact_weights"]["overdamped"] == found["exact_weights"]["overdamped"]
    cli_tables.show_doctor(sick)
    assert "do not trust" in capsys.readouterr().out


def test_invariance_sees_noise_that_no_weight_accounts_for():
    patients = doctor_identities._patients(jnp.array([doctor_identities.STANDING] * 3), True)
    start = doctor_identities._started(patients["tempered"], jax.random.key(1))
    still = doctor_identities._standing(patients["tempered"], start)

    def score(nudge):
        noise = np.random.default_rng(0).normal(size=still.x.shape)
        moved = eqx.tree_at(lambda w: w.x, still, still.x + jnp.asarray(nudge * noise, jnp.float32))
        return doctor_identities._worst_score(patients["tempered"].joint, still, moved)

    assert score(0.0) == 0.0
    assert score(0.4) > 10.0


def test_invariance_is_not_believed_where_few_walkers_hold_the_weight():
    """Such a mean is about as far off as its own error, so that no score could tell."""
    patients = doctor_identities._patients(jnp.array([doctor_identities.STANDING] * 3), True)
    start = doctor_identities._started(patients["tempered"], jax.random.key(1))
    still = doctor_identities._standing(patients["tempered"], start)
    spread = jnp.asarray(np.random.default_rng(0).normal(size=still.log_weight.shape), jnp.float32)

    def score(size):
        moved = eqx.tree_at(lambda w: w.log_weight, still, still.log_weight + size * spread)
        return doctor_identities._worst_score(patients["tempered"].joint, still, moved)

    assert np.isfinite(score(0.1))
    assert score(4.0) == score(np.nan) == np.inf


def shortened(values):
    """To the ten bits of mantissa that a TF32 product keeps of its factors."""
    return jax.tree.map(lambda v: jax.lax.reduce_precision(v, 8, 10) if eqx.is_inexact_array(v) else v, values)


def test_shortened_energies_are_seen(found, monkeypatch):
    whole = Target.energy_and_grad
    monkeypatch.setattr(Target, "energy_and_grad", lambda self, x: whole(self, shortened(x)))
    sick = doctor_precision.examined()
    for name in ("energy", "gradient", "log_weight"):
        assert sick[name] > 3.0 * doctor_precision.TOLERANCE[name] > 30.0 * found["precision"][name]
    assert sick["log_determinant"] == found["precision"]["log_determinant"]


def test_shortened_products_of_the_network_are_seen(found, monkeypatch):
    """Of the pass that carries derivatives along, and of the plain one, which is differentiated."""
    carry = networks.carry

    def plain(self, t, x, beta):
        hidden = self._features(t, x, beta)
        *inner, last = self.mlp.layers
        for layer in inner:
            hidden = jax.nn.silu(shortened(hidden) @ shortened(layer.weight).T + layer.bias)
        return shortened(hidden) @ shortened(last.weight).T + last.bias

    monkeypatch.setattr(networks, "carry", lambda layers, stack: carry(shortened(layers), shortened(stack)))
    monkeypatch.setattr(networks.Network, "__call__", plain)
    sick = doctor_precision.examined()
    for name in ("log_determinant", "log_weight", "jacobian"):
        assert sick[name] > 3.0 * doctor_precision.TOLERANCE[name] > 30.0 * found["precision"][name]
    assert sick["energy"] == found["precision"]["energy"]


def test_what_is_not_a_number_is_not_ok_and_still_json(found, monkeypatch, capsys):
    broken = {"tempered": {"error": np.nan, "standard_error": np.inf, "z": np.nan}}
    monkeypatch.setattr(doctor_identities, "examined", lambda: (broken, {"tempered": np.nan}))
    monkeypatch.setattr(doctor_precision, "examined", lambda: {**found["precision"], "energy": np.nan})
    assert cli.main(["doctor", "--json"]) == 3
    sick = json.loads(capsys.readouterr().out)
    assert sick["exact_weights"] == {"tempered": {"error": None, "standard_error": None, "z": None}}
    assert failing(sick) == {"weights, tempered", "invariance, tempered", "precision, energy"}
