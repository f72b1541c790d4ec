"""Every target call is counted, none is paid twice, and nothing is compiled twice."""

import jax
import jax.numpy as jnp
import pytest
from two_hills import Watched

from temperflow.baselines import Hamiltonian, Ladder, annealed_importance, parallel_tempering, survey, tempered_smc

SMALL = {
    annealed_importance: {"n": 6, "steps": 3, "moves": 2, "pilot": 5},
    tempered_smc: {"particles": 5, "islands": 2, "moves": 2},
    parallel_tempering: {"n": 4, "replicas": 2, "levels": 3, "sweeps": 5, "pilot": 5},
}


@pytest.mark.parametrize("method", SMALL, ids=lambda method: method.__name__)
def test_calls_are_counted_exactly(method):
    watched = Watched(count_calls=True)
    draws, _ = method(jax.random.key(0), watched.target, move=Hamiltonian(leapfrog_steps=2), **SMALL[method])
    assert watched.settled_calls() == draws.energy_calls
    # And nothing that one does with the draws costs another.
    draws.resample(3, seed=0).expect(lambda point: point)
    assert watched.settled_calls() == draws.energy_calls


def test_the_survey_counts_its_calls_and_compiles_once():
    watched = Watched(count_calls=True)
    _, calls = survey(jax.random.key(0), watched.target, source_scale=0.6, particles=5, islands=2, most_doublings=2)
    assert watched.settled_calls() == calls
    warm = watched.traces
    survey(jax.random.key(1), watched.target, source_scale=0.7, particles=5, islands=2, most_doublings=3)
    assert watched.traces == warm


@pytest.mark.parametrize("method", SMALL, ids=lambda method: method.__name__)
def test_no_retrace_for_another_key_source_or_ladder(method):
    watched = Watched(count_calls=False)

    def run(seed, level, scale):
        ladder = Ladder(jnp.array([0.0, level, 1.0]), jnp.full((2, 2), level))
        method(jax.random.key(seed), watched.target, ladder=ladder, source_scale=scale, **SMALL[method])
        return watched.traces

    warm = run(0, 0.3, 1.0)
    assert warm > 0
    assert run(1, 0.4, 2.0) == warm
