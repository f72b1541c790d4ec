"""The register of targets: what each name means, and what happens to a wrong one."""

import jax
import numpy as np
import pytest

from temperflow import targets
from temperflow.targets import mixtures


def test_every_name_builds_and_states_its_source():
    for name in targets.names():
        target = targets.get(name)
        assert target.dim >= 1
        assert target.reference
        assert target.source_scale > 0


@pytest.mark.parametrize(
    ("name", "sigma", "source_scale"),
    [
        ("gmm40", 0.25, 5**0.5),
        ("gmm40-released", 0.431**0.5, 5.0),
        ("gmm40-fab", 1.3133, 40.0),
        ("gmm40-jax", 1.0, 40.0),
    ],
)
def test_the_four_versions_of_the_forty_modes(name, sigma, source_scale):
    target = targets.get(name)
    assert target.name == name
    assert target.dim == 2
    assert target.source_scale == pytest.approx(source_scale)
    assert float(target.log_density.__self__.scale) == pytest.approx(sigma, abs=1e-4)
    assert target.modes.centres.shape == (40, 2)
    np.testing.assert_allclose(target.modes.shares, 1 / 40)
    assert np.all(np.abs(target.modes.centres) <= 40)


def test_three_versions_share_the_means_that_torch_drew_and_one_has_jax_s():
    centres = {name: np.asarray(targets.get(name).modes.centres) for name in targets.names() if "gmm40" in name}
    np.testing.assert_array_equal(centres["gmm40"], centres["gmm40-released"])
    np.testing.assert_array_equal(centres["gmm40"], centres["gmm40-fab"])
    assert not np.allclose(centres["gmm40"], centres["gmm40-jax"])
    # torch.rand after manual_seed(0) begins 0.49626, 0.76822, 0.08848, 0.13203.
    torch_first = 80 * (np.array([0.49626, 0.76822, 0.08848, 0.13203]) - 0.5)
    np.testing.assert_allclose(centres["gmm40"][:2].ravel(), torch_first, atol=1e-3)
    drawn = jax.random.uniform(jax.random.key(0), (40, 2), minval=-40.0, maxval=40.0)
    np.testing.assert_allclose(centres["gmm40-jax"], drawn, atol=1e-4)


def test_the_benchmark_s_mixture_in_many_dimensions():
    target = targets.get("gmm40-jax", dim=50)
    drawn = jax.random.uniform(jax.random.key(0), (40, 50), minval=-40.0, maxval=40.0)
    np.testing.assert_allclose(target.modes.centres, drawn, atol=1e-4)
    assert target.name == "gmm40-jax-50"


def test_other_means_than_the_shipped_are_refused():
    with pytest.raises(RuntimeError, match="other means"):
        mixtures._drawn_means(3, check=mixtures._shipped_means("torch_seed0"))


def test_the_nearest_name_and_option_are_suggested():
    with pytest.raises(ValueError, match="did you mean 'gmm40'"):
        targets.get("gmn40")
    with pytest.raises(ValueError, match="many-well") as wrong:
        targets.get("manywell32")
    assert "did you mean 'many-well-32'?" in str(wrong.value)
    with pytest.raises(ValueError, match="did you mean 'dim'"):
        targets.get("funnel", dims=3)
    with pytest.raises(ValueError, match="expected none"):
        targets.get("gmm40", dim=3)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gaussian", {"dim": 0}),
        ("gaussian", {"condition": 0.5}),
        ("gaussian", {"condition": float("nan")}),
        ("many-well", {"dim": 7}),
        ("many-well", {"dim": 0}),
        ("funnel", {"dim": 1}),
        ("gmm40-jax", {"dim": 0}),
        ("gmm9", {"scale": 0.0}),
        ("phi4", {"length": 0}),
        ("phi4", {"coupling": 0.0}),
        ("phi4", {"coupling": -1.0, "mass_squared": 3.0}),
    ],
)
def test_impossible_options_are_refused_with_what_was_expected(name, options):
    with pytest.raises(ValueError, match=r"got .*expected"):
        targets.get(name, **options)
