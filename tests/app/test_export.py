"""Draws in files: every format holds the same ones, in pieces or whole, and the summary is that of all of them."""

import json
import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pyarrow.parquet
import pytest
import xarray

from temperflow.app import export_formats
from temperflow.app.cli import main
from temperflow.app.errors import NumericalError
from temperflow.app.export import _seeds, export
from temperflow.app.export_formats import FORMATS

N, CHUNK, SEED = 250, 100, 3  # two whole chunks, and half of one
NAMES = ("log_weight", "lp", "log_q")


@pytest.fixture(scope="module")
def expected(whole):
    """The same draws in memory."""
    chunks = [whole.sampler.sample(CHUNK, seed) for seed in _seeds(SEED, 3)]
    named = {"x": "x", "log_weight": "log_weight", "lp": "log_density", "log_q": "log_proposal"}
    return {
        name: np.concatenate([np.asarray(getattr(draws, field)) for draws in chunks])[:N]
        for name, field in named.items()
    }


@pytest.fixture(scope="module")
def written(whole, tmp_path_factory):
    """Every format's file, and the summary that came back."""
    folder = tmp_path_factory.mktemp("draws")
    # Rows are read back a few at a time, so that the comb of resampling crosses from piece to piece.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_formats, "ROWS", 64)
        found = {
            ending: export(whole.sampler, N, folder / f"draws{ending}", seed=SEED, chunk=CHUNK) for ending in FORMATS
        }
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"draws{ending}" for ending in FORMATS)
    return folder, found


def from_table(columns):
    x = np.stack([columns.pop(name) for name in ("x0", "x1")], axis=1)
    return {"x": x, **columns}


def csv(path):
    with path.open() as file:
        names = file.readline().strip().split(",")
        values = np.loadtxt(file, delimiter=",", dtype=np.float32)
    return from_table(dict(zip(names, values.T, strict=True)))


def parquet(path):
    table = pyarrow.parquet.read_table(path)
    return from_table({name: table[name].to_numpy() for name in table.column_names})


def npz(path):
    stored = np.load(path)
    return {name: stored[name] for name in ("x", *NAMES)}


def netcdf(path, group="weighted_posterior"):
    with xarray.open_datatree(path, engine="h5netcdf") as tree:
        return {name: tree[group][name].to_numpy()[0] for name in tree[group].data_vars}


READERS = {".csv": csv, ".parquet": parquet, ".npz": npz, ".nc": netcdf}


@pytest.mark.parametrize("ending", FORMATS)
def test_a_file_holds_the_draws_to_the_last_bit(written, expected, ending):
    folder, _ = written
    found = READERS[ending](folder / f"draws{ending}")
    assert set(found) == {"x", *NAMES}
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_the_summary_is_of_all_draws_and_stands_in_the_file(written, expected):
    folder, found = written
    assert len({json.dumps(each, sort_keys=True) for each in found.values()}) == 1
    summary, log_weight = found[".csv"], expected["log_weight"].astype(np.float64)
    weight = np.exp(log_weight - log_weight.max())
    assert summary["n"] == N
    assert summary["log_evidence"] == pytest.approx(log_weight.max() + math.log(weight.mean()), abs=1e-5)
    # The error is that of chunks pooled; within a few hundredths that of all draws taken as one.
    assert summary["log_evidence_error"] == pytest.approx(weight.std(ddof=1) / weight.mean() / math.sqrt(N), rel=0.1)
    assert summary["ess"] == pytest.approx(weight.sum() ** 2 / (N * np.sum(weight**2)), rel=1e-5)
    assert summary["energy_calls"] == 3 * CHUNK
    stored = np.load(folder / "draws.npz")
    metadata = pyarrow.parquet.read_metadata(folder / "draws.parquet").metadata
    with xarray.open_datatree(folder / "draws.nc", engine="h5netcdf") as tree:
        for name, value in summary.items():
            assert stored[name] == value
            assert json.loads(metadata[b"temperflow"])[name] == value
            assert tree.attrs[name] == pytest.approx(value)


def test_resampled_on_disk_every_draw_has_its_share_of_copies(written, expected):
    folder, _ = written
    even = netcdf(folder / "draws.nc", "posterior")["x"]
    spent = netcdf(folder / "draws.nc", "sample_stats")
    assert even.shape == (N, 2)
    log_weight = expected["log_weight"].astype(np.float64)
    due = N * np.exp(log_weight - np.logaddexp.reduce(log_weight))
    copies = np.array([np.sum(np.all(even == x, axis=1)) for x in expected["x"]])
    assert copies.sum() == N
    assert np.all(np.abs(copies - due) < 1.0 + 1e-4)
    # Row by row the statistics are of the draw that stands there.
    where = [int(np.flatnonzero(np.all(expected["x"] == x, axis=1))[0]) for x in even]
    for name in NAMES:
        np.testing.assert_array_equal(spent[name], expected[name][where])


def test_one_chunk_is_the_samplers_own_draws(whole, tmp_path):
    export(whole.sampler, 50, tmp_path / "draws.npz", seed=SEED)
    np.testing.assert_array_equal(np.load(tmp_path / "draws.npz")["x"], whole.sampler.sample(50, SEED).x)


def test_draws_without_a_finite_weight_are_no_file(whole, tmp_path):
    nowhere = eqx.tree_at(
        lambda sampler: sampler.proposal.target.log_density, whole.sampler, lambda x: jnp.full((), -jnp.inf)
    )
    for ending in FORMATS:
        with pytest.raises(NumericalError, match="without a single finite weight"):
            export(nowhere, 20, tmp_path / f"draws{ending}")
    assert not list(tmp_path.iterdir())


def test_the_command_tells_what_it_wrote(whole, tmp_path, capsys):
    out = tmp_path / "draws.csv"
    assert main(["sample", str(whole.directory), "-n", "50", "--seed", str(SEED), "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert str(out) in shown.out + shown.err
    np.testing.assert_array_equal(csv(out)["x"], whole.sampler.sample(50, SEED).x)
