"""Draws in a file are the sampler's own, in every format, in one piece or many, and many need no more memory."""

import json
import tracemalloc

import h5netcdf
import jax.numpy as jnp
import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
import xarray

from temperflow.app import export as module
from temperflow.app import export_formats
from temperflow.app.cli import main
from temperflow.app.errors import NumericalError, UsageError
from temperflow.app.export import export
from temperflow.app.export_formats import FORMATS
from temperflow.sampling import Draws

N = 1000
SUMMARY = ("n", "log_evidence", "log_evidence_error", "ess", "khat", "energy_calls")


@pytest.fixture(scope="module")
def sampler(whole):
    return whole.sampler


def columns_of(draws):
    columns = {"x": draws.x, "log_weight": draws.log_weight, "lp": draws.log_density, "log_q": draws.log_proposal}
    return {name: np.asarray(values) for name, values in columns.items() if values is not None}


def read_npz(path):
    with np.load(path, allow_pickle=False) as archive:
        columns = {name: archive[name] for name in archive.files if name not in SUMMARY}
        return columns, {name: archive[name].item() for name in SUMMARY}


def read_netcdf(path):
    tree = xarray.load_datatree(path, engine="h5netcdf")
    weighted = tree["weighted_posterior"]
    return {name: weighted[name].values[0] for name in weighted.data_vars}, dict(tree.attrs)


def gathered(flat):
    """One array of coordinates from their columns."""
    dim = sum(name.removeprefix("x").isdigit() for name in flat)
    coordinates = np.stack([flat.pop(f"x{index}") for index in range(dim)], axis=1)
    return {"x": coordinates, **flat}


def read_csv(path):
    names, *_ = path.read_text(encoding="ascii").splitlines()
    values = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32, ndmin=2)
    return gathered(dict(zip(names.split(","), values.T, strict=True))), None


def read_parquet(path):
    table = pyarrow.parquet.read_table(path)
    assert set(map(str, table.schema.types)) == {"float"}
    flat = {name: table[name].to_numpy() for name in table.column_names}
    return gathered(flat), json.loads(pyarrow.parquet.read_metadata(path).metadata[b"temperflow"])


READERS = {".nc": read_netcdf, ".npz": read_npz, ".csv": read_csv, ".parquet": read_parquet}


def same_bits(found, expected):
    return found.keys() == expected.keys() and all(
        found[name].dtype == expected[name].dtype and found[name].tobytes() == expected[name].tobytes()
        for name in expected
    )


def test_every_format_is_read_here():
    assert READERS.keys() == FORMATS.keys()


@pytest.mark.parametrize("method", ["flow", "anneal", "temper"])
@pytest.mark.parametrize("ending", FORMATS)
def test_what_is_read_back_is_what_the_sampler_draws(sampler, tmp_path, ending, method):
    out = tmp_path / f"draws{ending}"
    told = export(sampler, N, out, seed=7, method=method)
    draws = sampler.sample(N, seed=7, method=method)
    found, figures = READERS[ending](out)
    assert same_bits(found, columns_of(draws))
    assert told["n"] == draws.x.shape[0]
    assert told["energy_calls"] == draws.energy_calls
    for name in ("log_evidence", "log_evidence_error", "ess", "khat"):
        assert told[name] == pytest.approx(float(getattr(draws, name)), rel=1e-4), name
    assert figures is None or {name: figures[name] for name in SUMMARY} == told
    assert [entry.name for entry in tmp_path.iterdir()] == [out.name]


def test_a_changed_digit_would_be_seen(sampler, tmp_path):
    """Mutant: six digits in a table."""
    out = tmp_path / "draws.csv"
    export(sampler, N, out, seed=7)
    lines = [",".join(f"{float(value):.6g}" for value in line.split(",")) for line in out.read_text().splitlines()[1:]]
    out.write_text("\n".join([out.read_text().splitlines()[0], *lines]))
    assert not same_bits(read_csv(out)[0], columns_of(sampler.sample(N, seed=7)))


def test_hardly_a_draw_is_made_for_nothing(sampler, tmp_path):
    """The last chunk is drawn whole and cut, so chunks are equal: 7 of 143, not 6 of 166 and one of 4."""
    told = export(sampler, N, tmp_path / "draws.npz", chunk=166)
    assert N <= told["energy_calls"] <= N + 7


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("chunk", [100, 384, 999])
def test_many_pieces_are_one(sampler, tmp_path, ending, chunk):
    """Of the flow. A row's rounding may depend on how many rows a device works on at once, no more."""
    out = tmp_path / f"draws{ending}"
    told = export(sampler, N, out, seed=7, chunk=chunk)
    draws = sampler.sample(N, seed=7)
    found, _ = READERS[ending](out)
    whole = columns_of(draws)
    for name, values in found.items():
        np.testing.assert_allclose(values, whole[name], rtol=1e-5, atol=1e-4, err_msg=name)
    assert told["n"] == N
    for name in ("log_evidence", "ess"):
        assert told[name] == pytest.approx(float(getattr(draws, name)), rel=1e-3), name
    # The error of each piece is estimated on its own.
    assert told["log_evidence_error"] == pytest.approx(float(draws.log_evidence_error), rel=0.02)


def test_pieces_that_begin_anew_would_be_seen(sampler, tmp_path, monkeypatch):
    """Mutant: every piece the first."""
    real = type(sampler).sample
    monkeypatch.setattr(type(sampler), "sample", lambda self, n, seed=0, method="flow", first=0: real(self, n, seed))
    with pytest.raises(AssertionError):
        test_many_pieces_are_one(sampler, tmp_path, ".npz", 100)


def test_pieces_of_annealing_are_different_populations(sampler, tmp_path):
    out = tmp_path / "draws.npz"
    told = export(sampler, 200, out, seed=7, method="anneal", chunk=64)
    found, _ = read_npz(out)
    assert told["n"] == found["x"].shape[0] >= 200
    first = columns_of(sampler.sample(64, seed=7, method="anneal"))["x"]
    assert found["x"][: len(first)].tobytes() == first.tobytes()
    assert len(np.unique(found["x"], axis=0)) > 2 * 64


@pytest.mark.parametrize("chunk", [None, 128])
def test_arviz_reads_the_tree(sampler, tmp_path, chunk, monkeypatch):
    """`posterior` is the weighted draws resampled: each of them its share of times, to less than one."""
    monkeypatch.setattr(export_formats, "ROWS", 300)  # read back in pieces as well
    out = tmp_path / "draws.nc"
    told = export(sampler, N, out, seed=7, chunk=chunk)
    tree = xarray.open_datatree(out, engine="h5netcdf")
    posterior, stats, weighted = (tree[name] for name in ("posterior", "sample_stats", "weighted_posterior"))
    assert posterior["x"].dims == ("chain", "draw", "x_dim")
    assert posterior["x"].shape == (1, N, sampler.dim)
    assert stats["lp"].dims == ("chain", "draw")
    assert {*stats.data_vars} == {"lp", "log_q", "log_weight"}
    np.testing.assert_array_equal(posterior["draw"], np.arange(N))
    x, given = posterior["x"].values[0], weighted["x"].values[0]
    rows = {point.tobytes(): index for index, point in enumerate(given)}
    chosen = np.array([rows[point.tobytes()] for point in x])
    for name in stats.data_vars:
        np.testing.assert_array_equal(stats[name].values[0], weighted[name].values[0][chosen])
    log_weight = weighted["log_weight"].values[0].astype(np.float64)
    due = np.exp(log_weight - log_weight.max())
    due *= N / due.sum()
    assert np.max(np.abs(np.bincount(chosen, minlength=N) - due)) < 1.0 + 1e-4
    assert tree.attrs["log_evidence"] == told["log_evidence"]
    own = sampler.sample(N, seed=7).to_datatree()
    for group in ("posterior", "sample_stats", "weighted_posterior"):
        assert {name: own[group][name].dims for name in own[group].data_vars} == {
            name: tree[group][name].dims for name in tree[group].data_vars
        }


def test_arviz_itself(sampler, tmp_path):
    arviz_base = pytest.importorskip("arviz_base")
    export(sampler, N, tmp_path / "draws.nc")
    tree = arviz_base.convert_to_datatree(str(tmp_path / "draws.nc"))
    assert arviz_base.extract(tree).sizes["sample"] == N


class Counting:
    """Stands in for `Sampler.sample`: draws that are numbered, and the most that were asked for at once."""

    def __init__(self):
        self.most = 0

    def __call__(self, n, seed=0, method="flow", first=0):
        self.most = max(self.most, n)
        x = first + np.arange(n, dtype=np.float32)
        log_weight = jnp.asarray(np.sin(x))
        points = jnp.asarray(np.stack([x, -x], axis=1))
        return Draws(points, log_weight, jnp.zeros(()), jnp.zeros(()), log_weight, jnp.zeros(n), n)


@pytest.fixture
def peak(sampler, monkeypatch):
    """Most memory of Python's and numpy's held at once, in bytes, and the most draws asked for at once."""
    monkeypatch.setattr(export_formats, "ROWS", 1000)

    def of(n, out, chunk):
        counting = Counting()
        monkeypatch.setattr(type(sampler), "sample", lambda self, *args, **options: counting(*args, **options))
        tracemalloc.start()
        try:
            export(sampler, n, out, chunk=chunk)
            return tracemalloc.get_traced_memory()[1], counting.most
        finally:
            tracemalloc.stop()

    return of


@pytest.mark.parametrize("ending", FORMATS)
def test_ten_times_as_many_draws_need_no_more_memory(peak, tmp_path, ending):
    peak(2000, tmp_path / f"first{ending}", 1000)  # imports, compilations
    few, _ = peak(2000, tmp_path / f"few{ending}", 1000)
    many, most = peak(20_000, tmp_path / f"many{ending}", 1000)
    assert most == 1000
    # 18,000 more draws in one array would be 360 kB.
    assert many < few + 60_000
    all_at_once, _ = peak(20_000, tmp_path / f"at-once{ending}", 20_000)
    assert all_at_once > few + 300_000
    found, _ = READERS[ending](tmp_path / f"many{ending}")
    np.testing.assert_array_equal(found["x"][:, 0], np.arange(20_000))


def test_draws_without_any_weight_are_refused_and_leave_nothing(sampler, tmp_path, monkeypatch):
    monkeypatch.setattr(type(sampler), "sample", lambda self, n, **options: weightless(n))
    with pytest.raises(NumericalError, match="without a single finite weight"):
        export(sampler, 10, tmp_path / "draws.npz")
    assert not list(tmp_path.iterdir())


def weightless(n):
    nothing = jnp.full(n, -jnp.inf)
    return Draws(jnp.zeros((n, 2)), nothing, -jnp.inf * jnp.ones(()), jnp.ones(()), nothing, jnp.zeros(n), n)


def test_more_draws_than_a_seed_has_are_refused_before_any_is_drawn(sampler, tmp_path):
    with pytest.raises(UsageError, match="several files with different seeds"):
        export(sampler, module.MOST_DRAWS, tmp_path / "draws.npz")


def test_the_command_writes_what_the_sampler_draws(whole, sampler, tmp_path, capsys):
    out = tmp_path / "draws.nc"
    assert (
        main(["sample", str(whole.directory), "-n", "64", "--out", str(out), "--method", "anneal", "--seed", "3"]) == 0
    )
    assert f"{out}: 64 draws, log Z " in capsys.readouterr().out
    found, _ = read_netcdf(out)
    assert same_bits(found, columns_of(sampler.sample(64, seed=3, method="anneal")))
    with h5netcdf.File(out) as file:
        assert set(file.groups) == {"posterior", "sample_stats", "weighted_posterior"}
