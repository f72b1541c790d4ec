"""`temperflow reproduce`: interrupted anywhere it ends with the same bits, and its tables are its records."""

import importlib
import json
import math

import equinox as eqx
import jax
import numpy as np
import pytest
import tiny_experiment as tiny
from safetensors.numpy import load

from temperflow import targets
from temperflow.app.build import build
from temperflow.app.cli import main
from temperflow.app.reproduce import classical, training
from temperflow.app.reproduce.batch import SAMPLERS
from temperflow.app.reproduce.records import FIELDS, SUMMARISED
from temperflow.app.stepper import Stepper, owned
from temperflow.baselines import Hamiltonian

MADE = {"paper": tiny.papers, "ctds": tiny.swapped}
# What no two runs have in common.
TIMES = ("train_seconds", "command")


@pytest.fixture(scope="module", autouse=True)
def programs():
    with pytest.MonkeyPatch.context() as patch:
        tiny.compiled_once(patch)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Each experiment of rows that train, as nothing interrupted it."""
    folder = tmp_path_factory.mktemp("whole")
    return {name: tiny.carried_out(made(), folder / name) for name, made in MADE.items()}


@pytest.fixture(scope="module")
def spent():
    """What each short pilot of a classical sampler has spent."""
    return []


@pytest.fixture(scope="module")
def untrained(tmp_path_factory, spent):
    """The rows that train nothing, with an eye on their pilots."""
    module = importlib.import_module("temperflow.baselines.parallel_tempering")  # not the function of that name
    smc, ladder = classical.tempered_smc, module.pilot_ladder

    def seen_smc(*args, **options):
        draws, info = smc(*args, **options)
        if options["islands"] == 1:
            spent.append(draws.energy_calls)
        return draws, info

    def seen_ladder(*args, **options):
        found, calls = ladder(*args, **options)
        spent.append(calls)
        return found, calls

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classical, "tempered_smc", seen_smc)
        patch.setattr(module, "pilot_ladder", seen_ladder)
        return tiny.carried_out(tiny.untrained(), tmp_path_factory.mktemp("untrained") / "ctds")


def document(place, name):
    return json.loads((place / f"{name}.json").read_text())


def without_times(record):
    return {name: value for name, value in record.items() if name not in TIMES}


def contents(place, pattern):
    """Files by their names in the directory."""
    found = {str(path.relative_to(place)): path.read_bytes() for path in place.glob(pattern) if path.is_file()}
    assert found
    return found


@pytest.mark.parametrize("name", MADE)
def test_interrupted_at_every_stage_it_ends_with_the_same_bits(whole, tmp_path, name):
    told = tiny.interrupted(MADE[name](), tmp_path)
    left_open = " ".join(line for lines in told for line in lines)
    for stage in (f"of {tiny.EPOCHS} epochs", "not drawn from", "not measured"):
        assert stage in left_open
    for pattern in (f"*/{SAMPLERS}", "*/draws.*", "*/figures.*"):
        assert contents(tmp_path, pattern) == contents(whole[name], pattern)
    one, other = document(tmp_path, name), document(whole[name], name)
    assert one["missing"] == []
    assert [without_times(record) for record in one["records"]] == [without_times(r) for r in other["records"]]
    assert len(one["records"]) == tiny.SEEDS
    if name == "paper":
        assert contents(tmp_path, "*/temperatures.*") == contents(whole[name], "*/temperatures.*")
    assert not list(tmp_path.glob("*/checkpoints"))  # nobody needs them any more


def test_an_interrupted_batch_that_forgot_its_state_would_end_with_other_bits(whole, tmp_path, monkeypatch):
    kept = training._kept
    monkeypatch.setattr(
        training, "_kept", lambda s: kept(eqx.tree_at(lambda s: s.buffer.filled, s, 0 * s.buffer.filled))
    )
    tiny.interrupted(tiny.swapped(), tmp_path)
    assert contents(tmp_path, f"*/{SAMPLERS}") != contents(whole["ctds"], f"*/{SAMPLERS}")


def test_samplers_without_training_go_on_as_well(untrained, tmp_path):
    told = tiny.interrupted(tiny.untrained(), tmp_path)
    left_open = " ".join(line for lines in told for line in lines)
    for stage in ("not begun", "seed 0 is done", "not measured"):
        assert stage in left_open
    one, other = (document(place, "ctds")["records"] for place in (tmp_path, untrained))
    assert [without_times(record) for record in one] == [without_times(record) for record in other]
    for path in tmp_path.glob("*/draws.*"):
        mine, theirs = (load(each.read_bytes()) for each in (path, untrained / path.relative_to(tmp_path)))
        assert mine["x"].tobytes() == theirs["x"].tobytes()


def test_the_command_tells_what_is_missing_and_goes_on(whole, tmp_path, capsys):
    assert main(tiny.words("paper", tmp_path, "--recipes", "ctds", "--seconds", "0.001")) == 0
    shown = capsys.readouterr()
    assert "missing: paper/ctds on gmm40, seeds 0, 1: not begun" in shown.err
    assert "the same command goes on from here" in shown.err
    assert "Not there yet:" in shown.out
    assert document(tmp_path, "paper")["records"] == []

    assert main(tiny.words("paper", tmp_path, "--recipes", "ctds")) == 0
    shown = capsys.readouterr()
    assert "missing" not in shown.err
    assert "Not there yet" not in shown.out
    assert shown.out.strip() == (tmp_path / "paper.md").read_text().strip()
    one, other = (document(place, "paper") for place in (tmp_path, whole["paper"]))
    assert [without_times(record) for record in one["records"]] == [without_times(r) for r in other["records"]]
    assert one["records"][0]["command"].startswith("temperflow reproduce paper --out")
    for name in ("scatter-gmm40.svg", "temperatures-gmm40.svg", "temperature-map-gmm40.svg"):
        assert (tmp_path / "figures" / name).read_text().rstrip().endswith("</svg>")
        assert f"![figures/{name}](figures/{name})" in shown.out


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (("paper", "--recipes", "ctds", "--training.epochs=7"), "training.epochs: 6 there, 7 now"),
        (("paper", "--recipes", "ctds", "-n", "17"), "n: 16 there, 17 now"),
        (("paper", "--recipes", "ctds", "--trials", "3"), "trials: 2 there, 3 now"),
        (("paper", "--variant", "released"), "variant: 'text' there, 'released' now"),
        (("ctds", "--recipe", "quick"), "experiment: 'paper' there, 'ctds' now"),
    ],
)
def test_other_settings_are_refused_and_leave_the_directory_alone(whole, capsys, changed, told):
    before = contents(whole["paper"], "**/*.*")
    name, *options = changed
    others = {key: value for key, value in tiny.PAPER.items() if not any(key in option for option in options)}
    words = tiny.words(name, whole["paper"], settings=others)
    assert main([*words, *options]) == 2
    message = capsys.readouterr().err
    assert told in message
    assert "choose another --out" in message
    assert contents(whole["paper"], "**/*.*") == before


def test_a_directory_of_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("")
    assert main(tiny.words("paper", tmp_path)) == 2
    assert "holds 'thesis.tex' and no experiment" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["thesis.tex"]


def everything(whole, untrained):
    return [(whole["paper"], "paper"), (whole["ctds"], "ctds"), (untrained, "ctds")]


# What a sampler that draws from no map and learns nothing has no figures of.
OF_MAPS = {
    *("elbo", "elbo_error", "elbo_spread", "elbo_where_known", "weightless", "ess", "ess_error"),
    *("eubo", "eubo_error", "eubo_spread", "eubo_where_known", "unknown_density", "ess_forward", "ess_forward_error"),
    *("free_energy", "khat", "residual", "loss", "dropped", "epochs"),
}


def test_records_have_every_field_and_every_seed(whole, untrained):
    for place, name in everything(whole, untrained):
        rows = {}
        for record in document(place, name)["records"]:
            assert list(record) == list(FIELDS)
            assert (record["status"], record["trouble"]) == ("trained", None)
            assert (record["n"], record["trials"]) == (tiny.N, tiny.TRIALS)
            rows.setdefault(record["row"], []).append(record["seed"])
            missing = {key for key, value in record.items() if value is None} - {"trouble", "ablation"}
            if place == untrained:
                assert missing == OF_MAPS
                continue
            # A bound is missing where it is infinite, which some points say, and only there.
            assert missing <= {f"{bound}{part}" for bound in ("elbo", "eubo") for part in ("", "_error", "_spread")} | {
                "ess_forward_error"
            }
            for bound, share in (("elbo", "weightless"), ("eubo", "unknown_density")):
                assert (bound in missing) == (record[share] > 0.0)
            assert record["epochs"] == tiny.EPOCHS
            assert record["seeds_together"] == tiny.SEEDS
        assert set(map(tuple, rows.values())) == {(0, 1)}


def test_energy_calls_are_those_of_the_trainer(whole):
    for name, made in MADE.items():
        config = made().rows[0].config
        trainer = build(config, targets.get("gmm40"), None).trainer
        for record in document(whole[name], name)["records"]:
            assert record["energy_calls"] == tiny.EPOCHS * trainer.calls_per_epoch


def test_rows_are_what_the_records_say_together(whole, untrained):
    for place, name in everything(whole, untrained):
        shown = document(place, name)
        for row in shown["rows"]:
            mine = [record for record in shown["records"] if record["row"] == row["row"]]
            assert row["seeds"] == [record["seed"] for record in mine] == [0, 1]
            assert row["diverged"] == 0
            assert row["modes_worst"] == min(record["modes_worst"] for record in mine)
            for figure, spread in SUMMARISED.items():
                values = [record[figure] for record in mine]
                if None in values:
                    assert row[figure] is None
                    continue
                first, second = values
                assert row[figure]["mean"] == pytest.approx((first + second) / 2)
                # Of two values the sample's standard deviation is their distance over the root of two.
                assert row[figure]["over_seeds"] == pytest.approx(abs(first - second) / math.sqrt(2))
                redraws = [record[spread] for record in mine] if spread else [None]
                if None in redraws:
                    assert row[figure]["over_redraws"] is None
                else:
                    assert row[figure]["over_redraws"] == pytest.approx(math.hypot(*redraws) / math.sqrt(2))


def test_the_table_has_every_row_with_its_figures(whole, untrained):
    for place, name in everything(whole, untrained):
        page = (place / f"{name}.md").read_text()
        for row in document(place, name)["rows"]:
            (line,) = [line for line in page.splitlines() if line.startswith(f"| {row['row']} | gmm40 | 2 |")]
            cells = [cell.strip() for cell in line.split("|")]
            w2 = row["w2"]
            assert cells[4] == f"{w2['mean']:.2f} ± {w2['over_seeds']:.2f} (± {w2['over_redraws']:.2f})"
            assert cells[5] == f"{w2['mean'] / row['w2_floor']['mean']:.2f}"
            assert f"{row['energy_calls']['mean']:.3g}" in cells
            # Nobody shall take such a short run for the real one.
            assert f"* {row['row']}, gmm40: " in page
            assert "`training.epochs`" in page
    assert "| CTDS without weights | 12.87 ± 0.20 |" in (whole["paper"] / "paper.md").read_text()


def distance(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return math.sqrt(sum(float(np.sum((np.asarray(a) - np.asarray(b)) ** 2)) for a, b in pairs))


def test_seeds_side_by_side_are_single_runs_to_rounding():
    config, target = tiny.swapped().rows[0].config, targets.get("gmm40")
    ensemble = training.Ensemble(config, target, None, (0, 1))
    states, (look,) = ensemble.run(ensemble.start(), 1)
    stepper = None
    for index, seed in enumerate(ensemble.seeds):
        built = build(config, target, None, seed)
        start = owned(built.trainer.start(built.model, seed))
        before = jax.tree.map(np.array, eqx.filter(start.model, eqx.is_inexact_array))
        stepper = Stepper(built.trainer, start) if stepper is None else stepper
        state, (epoch,) = stepper.run(start, 1)
        for part in ("model", "average"):
            single, mine, theirs = (
                eqx.filter(getattr(each, part), eqx.is_inexact_array)
                for each in (state, ensemble.one(states, index), ensemble.one(states, 1 - index))
            )
            moved = distance(single, before)
            assert moved > 0.0
            assert distance(single, mine) < 1e-3 * moved
            assert distance(single, theirs) > moved
        assert int(states.iteration[index]) == int(state.iteration)
        for name, value in epoch.shown.items():
            assert float(look.info[name][index]) == pytest.approx(value, rel=1e-3, abs=1e-5)


def test_classical_rows_spend_what_they_may_and_their_pilots(untrained, spent):
    config = tiny.untrained().rows[0].config
    allowed = classical.training_calls(config, targets.get("gmm40"), None)
    assert allowed == 1200 * build(config, targets.get("gmm40"), None).trainer.calls_per_epoch
    assert len(spent) == 4  # two samplers, two seeds
    for record in document(untrained, "ctds")["records"]:
        assert record["evaluation_calls"] == 0
        # Rounds double, so that the next longer run may be twice as long; SMC rounds its moves down.
        assert 0.4 * allowed < record["energy_calls"] <= allowed + max(spent)


@pytest.mark.parametrize("calls", [10_000, 123_456, 10_000_000])
def test_the_longest_run_that_the_calls_allow(calls):
    a_sweep = classical.REPLICAS * (1 + (classical.LEVELS - 1) * Hamiltonian().calls)

    def cost(last):
        """By hand: rounds of 1, 2, 4, ... sweeps before the last, and every chain's start."""
        before, length = 0, 1
        while length < last:
            before, length = before + length, 2 * length
        return classical.REPLICAS * classical.LEVELS + a_sweep * (before + last)

    sweeps = classical._sweeps(calls, 1)
    assert cost(sweeps) <= calls < cost(sweeps + 1)
    assert classical._sweeps(calls, 10**6) == 10**6  # as many as the draws need, whatever it costs
