"""The verdict: every piece of evidence can flag, nothing broken passes, and bad samplers are told from good ones.

The rates are those of `benchmarks/verdict_study.py`: of its good samplers under 2 % are flagged, so that
six good ones here would raise a false alarm in under one of nine choices of seeds; theirs are fixed.
"""

import dataclasses
import json
import math

import numpy as np
import pytest
import verdict_cases
from exact_samplers import SOURCE

from temperflow.app import runner, verdict
from temperflow.app.cli import main
from temperflow.app.run_directory import VERDICT
from temperflow.app.verdict import LEVELS, judge, weigh
from temperflow.app.verdict_evidence import Evidence
from temperflow.app.verdict_reference import REPLICAS, LogZ, look_around

TRUSTED, CHECK, CONDEMNED = LEVELS


def sound(**changes):
    """Evidence without a flaw, but for the changes."""
    fine = Evidence(
        flow=LogZ(2.0, 0.01),
        halves=(LogZ(2.01, 0.014), LogZ(1.99, 0.014)),
        anneal=LogZ(2.01, 0.02),
        temper=LogZ(1.95, 0.06),
        believed=1.97,
        reference=LogZ(1.99, 0.03),
        reference_settled=True,
        swapped=LogZ(2.01, 0.02),
        round_trips=40 * REPLICAS,
        ess=0.9,
        khat=0.3,
        anneal_ess=0.8,
        anneal_khat=0.3,
        gap=0.05,
        reference_gap=0.05,
        missed=0.0,
        missed_count=0,
        swapped_missed=0.0,
        swapped_missed_count=0,
        non_finite=0.0,
        dead=0.0,
        cold_share=0.11,
        cold_share_due=0.11,
        drift=0.1,
        drift_hot=0.1,
        residual=((0.5, 0.1, 0.2, 0.3),),
        residual_hot=((0.5, 0.1, 0.2, 0.3),),
        energy_calls=1000,
    )
    return dataclasses.replace(fine, **changes)


# By the finding that has to speak, alone: what is wrong a little, and what is wrong beyond repair.
FLAWS = {
    "flow ESS": ({"ess": 0.3}, {"ess": 0.01}),
    "flow k-hat": ({"khat": 0.8}, {"khat": 1.2}),
    "flow against its own weights": ({"gap": 0.5}, {"gap": 2.0}),
    "coverage": ({"missed": 0.006, "missed_count": 6}, {"missed": 0.1, "missed_count": 100}),
    "coverage, parallel tempering": (
        {"swapped_missed": 0.006, "swapped_missed_count": 6},
        {"swapped_missed": 0.1, "swapped_missed_count": 100},
    ),
    "flow against the reference": ({"reference_gap": 0.5}, {"reference_gap": 2.0}),
    "reference": ({"reference_settled": False}, None),
    "log Z, flow and wide tempered run": ({"reference": LogZ(2.4, 0.03)}, {"reference": LogZ(2.7, 0.03)}),
    "log Z, flow and parallel tempering": ({"swapped": LogZ(2.4, 0.03)}, {"swapped": LogZ(2.7, 0.03)}),
    "log Z, flow and annealing": ({"anneal": LogZ(1.6, 0.03)}, {"anneal": LogZ(2.7, 0.03)}),
    "log Z, flow and tempered annealing": ({"temper": LogZ(1.6, 0.03)}, {"temper": LogZ(2.7, 0.03)}),
    "log Z, two halves": (
        {"halves": (LogZ(1.8, 0.02), LogZ(2.2, 0.02))},
        {"halves": (LogZ(1.6, 0.02), LogZ(2.4, 0.02))},
    ),
    "log Z, flow and -F(1, 1)": ({"believed": 1.5}, {"believed": 0.8}),
    "annealing": ({"anneal_ess": 0.01}, None),
    "residual": ({"drift": 3.0}, {"drift": 20.0}),
    "residual, hot": ({"drift_hot": 3.0}, {"drift_hot": 20.0}),
    "cold particles": ({"cold_share": 0.03}, {"cold_share": 0.005}),
    "finite draws": ({"non_finite": 0.01}, {"non_finite": 0.2}),
    "finite walks": ({"dead": 0.01}, {"dead": 0.2}),
}
PAIRS = ("flow", "anneal", "temper", "reference", "swapped")
NUMBERS = [field.name for field in dataclasses.fields(Evidence) if field.type in (float, float | None)]


def test_evidence_without_a_flaw_is_trusted_and_every_reason_is_told():
    found = weigh(sound())
    assert found.word == TRUSTED
    assert found.reasons == found.findings
    assert {finding.name for finding in found.findings} | {"reference"} == set(FLAWS)


@pytest.mark.parametrize(("name", "which"), [(name, which) for name in FLAWS for which in (0, 1) if FLAWS[name][which]])
def test_one_flaw_is_enough_and_is_named_alone(name, which):
    found = weigh(sound(**FLAWS[name][which]))
    assert [reason.name for reason in found.reasons] == [name]
    assert found.word == (CHECK, CONDEMNED)[which]


def test_the_worst_finding_decides_and_is_told_first():
    found = weigh(sound(ess=0.3, drift=20.0, khat=0.8))
    assert found.word == CONDEMNED
    assert [reason.level for reason in found.reasons] == [CONDEMNED, CHECK, CHECK]
    assert found.reasons[0].name == "residual"


def test_the_numbers_below_are_all_numbers_there_are():
    others = {*PAIRS, "halves", "residual", "residual_hot"}
    whole = {field.name for field in dataclasses.fields(Evidence)} - others - set(NUMBERS)
    assert whole == {"reference_settled", "round_trips", "missed_count", "swapped_missed_count", "energy_calls"}


@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_not_a_number_is_never_good(name):
    assert weigh(sound(**{name: math.nan})).word != TRUSTED


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_log_z_that_is_not_finite_is_never_good(name, value):
    assert weigh(sound(**{name: LogZ(value, 0.02)})).word != TRUSTED


@pytest.mark.parametrize("error", [0.4, 3.0, 1e30, math.inf, math.nan])
@pytest.mark.parametrize("name", PAIRS)
def test_an_error_that_swallows_any_difference_is_no_agreement(name, error):
    near, away = LogZ(2.0, error), LogZ(2.7, error)
    assert weigh(sound(**{name: near})).word != TRUSTED
    assert weigh(sound(**{name: away})).word != TRUSTED


@pytest.mark.parametrize("error", [0.4, math.inf])
def test_it_is_the_limit_on_the_error_that_sees_this(monkeypatch, error):
    monkeypatch.setattr(verdict, "UNSURE", math.inf)
    assert weigh(sound(temper=LogZ(2.7, error))).word == TRUSTED


def test_halves_too_uncertain_to_agree_do_not():
    assert weigh(sound(halves=(LogZ(1.5, 0.5), LogZ(2.5, 0.5)))).word == CHECK


@pytest.mark.parametrize(("name", "other"), [("reference", "wide tempered run"), ("swapped", "parallel tempering")])
def test_a_reference_that_finds_less_does_not_condemn(name, other):
    found = weigh(sound(**{name: LogZ(-8.0, 0.03)}))
    assert found.word == CHECK
    assert [reason.name for reason in found.reasons] == [f"log Z, flow and {other}"]
    assert weigh(sound(**{name: LogZ(12.0, 0.03)})).word == CONDEMNED


def test_chains_that_have_not_travelled_are_not_heard():
    wrong = {"swapped": LogZ(9.0, 0.01), "swapped_missed": 0.5, "swapped_missed_count": 512}
    assert weigh(sound(**wrong, round_trips=REPLICAS)).word == CONDEMNED
    still = weigh(sound(**wrong, round_trips=REPLICAS - 1))
    assert still.word == TRUSTED
    assert "parallel tempering" in [finding.name for finding in still.findings]


def test_one_or_two_stray_draws_are_not_a_missed_mode():
    assert weigh(sound(missed=0.02, missed_count=2)).word == TRUSTED
    assert weigh(sound(missed=0.02, missed_count=3)).word == CONDEMNED


def test_without_tempering_there_is_nothing_to_say_of_it():
    found = weigh(sound(temper=None, drift_hot=None, cold_share=None, cold_share_due=None))
    assert found.word == TRUSTED
    silent = {"cold particles", "residual, hot", "log Z, flow and tempered annealing"}
    assert silent.isdisjoint(each.name for each in found.findings)


def test_weights_equal_to_rounding_have_no_tail():
    assert weigh(sound(ess=1.0, khat=math.inf)).word == TRUSTED
    assert weigh(sound(ess=0.99, khat=math.inf)).word == CONDEMNED


@pytest.fixture(scope="module")
def plane():
    """A target, its witnesses and the random numbers that choose the samplers."""
    target = verdict_cases.product(np.random.default_rng(1))
    return target, look_around(target.target, SOURCE, 1), np.random.default_rng(2)


def test_the_witnesses_find_all_modes_and_the_evidence(plane):
    target, reference, _ = plane
    centres = np.asarray(target.centres)
    for witness in (reference.annealed, reference.swapped):
        # Normalised, so log Z is 0. Four errors and the bias of adaptation: under 1 in 10^4.
        assert abs(witness.log_evidence.value) < 4 * witness.log_evidence.error + 0.02
        assert 0 < witness.log_evidence.error < 0.1
        for row, centre in enumerate(centres):
            nearest = np.argmin(np.abs(witness.x[:, row, None] - centre), axis=1)
            for mode in range(centre.size):
                same = np.isclose(centre, centre[mode])
                due = float(np.asarray(target.shares)[row, same].sum())
                assert abs(np.mean(same[nearest]) - due) < 0.1
    assert reference.settled
    assert reference.round_trips > 16 * REPLICAS


@pytest.mark.parametrize("seed", range(6))
def test_good_samplers_are_trusted(seed):
    choice = np.random.default_rng(seed)
    family = (verdict_cases.product, verdict_cases.grid)[seed % 2]
    target = family(choice)
    found = judge(verdict_cases.good(target, choice), seed)
    assert found.word == TRUSTED, found.reasons


@pytest.mark.parametrize("kind", verdict_cases.BAD)
def test_bad_samplers_are_flagged(plane, kind):
    target, reference, choice = plane
    found = judge(verdict_cases.BAD[kind](target, choice), 3, reference)
    assert found.word != TRUSTED
    assert all(reason.level != TRUSTED for reason in found.reasons)


def test_a_sampler_content_with_the_nearest_mode_is_condemned():
    """Its own evidence is in order: only a run from ever wider starts knows of the other eight modes."""
    choice = np.random.default_rng(5)
    target = verdict_cases.far(choice)
    found = judge(verdict_cases.nearest_only(target, choice), 5)
    assert found.word == CONDEMNED
    witnessed = {"coverage", "coverage, parallel tempering", "flow against the reference"}
    against = {reason.name for reason in found.reasons}
    assert witnessed <= against
    assert {"flow ESS", "flow k-hat", "residual", "log Z, two halves"}.isdisjoint(against)
    inner = look_around(verdict_cases.nearest(target).target, SOURCE, 5)
    assert judge(verdict_cases.nearest_only(target, choice), 5, inner).word == TRUSTED


def test_evaluate_leaves_the_verdict_its_reasons_and_its_evidence_in_the_directory(
    plane, tmp_path, monkeypatch, capsys
):
    target, _, choice = plane
    sampler = verdict_cases.half_missing(target, choice)
    monkeypatch.setattr(runner, "load", lambda directory: sampler)
    assert main(["evaluate", str(tmp_path), "-n", "64", "--trials", "1", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / VERDICT).read_text())
    assert printed["verdict"] == written["verdict"] == CONDEMNED
    assert written["reasons"][0]["level"] == CONDEMNED
    assert all(set(reason) == {"name", "level", "text"} and reason["text"] for reason in written["reasons"])
    assert {finding["name"] for finding in written["findings"]} == set(FLAWS) - {"reference"}
    assert len({finding["name"] for finding in written["findings"]}) == len(written["findings"])
    assert set(written["evidence"]) == {field.name for field in dataclasses.fields(Evidence)}
    assert set(written["evidence"]["flow"]) == {"value", "error"}
    assert len(written["evidence"]["residual"][0]) == len(written["evidence"]["residual_hot"][0]) == 4


@pytest.mark.slow
def test_rates():
    """Forty good ones and 120 bad: with the study's rates either bound breaks in under one of 100 choices of seeds."""
    words = {True: [], False: []}
    kinds = list(verdict_cases.BAD)
    for index in range(40):
        family = list(verdict_cases.FAMILIES.values())[index % 3]
        target = family(np.random.default_rng([7, index]))
        reference = look_around(target.target, SOURCE, 100 + index)
        for place in range(4):
            choice = np.random.default_rng([7, index, place])
            make = verdict_cases.good if place == 0 else verdict_cases.BAD[kinds[(3 * index + place) % len(kinds)]]
            words[place == 0].append(judge(make(target, choice), 100 + index, reference).word)
    assert np.mean([word != TRUSTED for word in words[True]]) <= 0.05
    assert np.mean([word != TRUSTED for word in words[False]]) >= 0.95
