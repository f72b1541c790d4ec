"""Checkpoints: what goes in comes out bit for bit, and what is not sound does not come out."""

import random

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from temperflow.app import arrays, manifest
from temperflow.app.checkpoint import Checkpoints
from temperflow.app.manifest import Refused


class Awkward(eqx.Module):
    """One leaf of every kind a training state has."""

    floats: jax.Array
    scalar: jax.Array
    count: jax.Array
    flags: jax.Array
    nothing: jax.Array
    absent: None
    number: float
    function: object


def awkward(seed):
    numbers = np.random.default_rng(seed)
    return Awkward(
        jnp.asarray(numbers.normal(size=(3, 2)), jnp.float32).at[0, 0].set(-0.0).at[0, 1].set(jnp.inf),
        jnp.asarray(numbers.normal(), jnp.float32),
        jnp.asarray(seed + 2**30),
        jnp.asarray(numbers.normal(size=4) > 0),
        jnp.zeros((0, 2)),
        None,
        1.5,
        jax.nn.silu,
    )


def same_bits(one, other):
    pairs = zip(
        jax.tree.leaves(eqx.filter(one, eqx.is_array)), jax.tree.leaves(eqx.filter(other, eqx.is_array)), strict=True
    )
    return all(a.dtype == b.dtype and np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def filled(folder, run="mine"):
    """Checkpoints of epochs 1 to 5, of which three are kept."""
    kept = Checkpoints(folder / "checkpoints", run)
    for epoch in range(1, 6):
        kept.save(epoch, awkward(epoch), {"seconds": 0.5 * epoch})
    return kept


def test_a_state_comes_back_bit_for_bit(tmp_path):
    found = filled(tmp_path).restore(awkward(0))
    assert same_bits(found.tree, awkward(5))
    assert (found.tree.number, found.tree.function, found.tree.absent) == (1.5, jax.nn.silu, None)
    assert found.about["epoch"] == 5
    assert found.about["seconds"] == 2.5
    assert found.refused == ()


def test_the_newest_three_are_kept(tmp_path):
    assert filled(tmp_path).names() == ["epoch-00000003", "epoch-00000004", "epoch-00000005"]


def flip(path, choice):
    content = bytearray(path.read_bytes())
    content[choice.randrange(len(content))] ^= 1 << choice.randrange(8)
    path.write_bytes(content)


def truncate(path, choice):
    path.write_bytes(path.read_bytes()[: choice.randrange(path.stat().st_size)])


def remove(path, choice):
    path.unlink()


@pytest.mark.parametrize("damage", [flip, truncate, remove])
@pytest.mark.parametrize("name", ["state.safetensors", "manifest.json"])
def test_a_damaged_one_is_refused_by_name_and_the_one_before_used(tmp_path, damage, name):
    choice = random.Random(f"{damage.__name__} {name}")
    for attempt in range(10):
        kept = filled(tmp_path / str(attempt))
        damage(kept.folder / "epoch-00000005" / name, choice)
        found = kept.restore(awkward(0))
        if damage is flip and name == "manifest.json" and not found.refused:
            assert same_bits(found.tree, awkward(5))  # the bit was in a version or a space
            continue
        assert [refused for refused, _ in found.refused] == ["epoch-00000005"]
        assert found.about["epoch"] == 4
        assert same_bits(found.tree, awkward(4))
        assert kept.names()[-1] == "epoch-00000004"
        assert (kept.folder / "epoch-00000005.refused").is_dir()


def test_without_checking_a_flipped_bit_is_taken_for_the_state(tmp_path, monkeypatch):
    kept = filled(tmp_path)
    path = kept.folder / "epoch-00000005" / "state.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(manifest.Manifest, "check", lambda *_: None)
    found = kept.restore(awkward(0))
    assert found.refused == ()
    assert not same_bits(found.tree, awkward(5))


def test_another_runs_are_foreign(tmp_path):
    kept = filled(tmp_path, run="theirs")
    found = Checkpoints(kept.folder, "mine").restore(awkward(0))
    assert found.tree is None
    assert len(found.refused) == 3
    assert all(reason == "a checkpoint of another run" for _, reason in found.refused)


def test_another_structure_is_refused_and_says_which_array(tmp_path):
    content = arrays.to_bytes(awkward(1))
    wider = eqx.tree_at(lambda tree: tree.floats, awkward(1), jnp.zeros((3, 4)))
    with pytest.raises(Refused, match=r"floats of float32\[3, 2\] where float32\[3, 4\] belongs"):
        arrays.from_bytes(content, wider)
    doubled = eqx.tree_at(lambda tree: tree.count, awkward(1), jnp.zeros(()))
    with pytest.raises(Refused, match=r"count of int32\[\] where float32\[\] belongs"):
        arrays.from_bytes(content, doubled)
    with pytest.raises(Refused, match="names differ, first at 'absent'"):
        arrays.from_bytes(
            content, eqx.tree_at(lambda t: t.absent, awkward(1), jnp.ones(1), is_leaf=lambda x: x is None)
        )


def test_arbitrary_bytes_are_refused_not_run():
    choice = random.Random(2)
    pickled = b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R."
    for content in (b"", pickled, *(choice.randbytes(choice.randrange(400)) for _ in range(50))):
        with pytest.raises(Refused, match="arrays that cannot be read"):
            arrays.from_bytes(content, awkward(0))


def test_an_interrupted_save_leaves_nothing_that_counts(tmp_path):
    kept = filled(tmp_path)
    half = kept.folder / ".epoch-00000006.77.tmp"
    half.mkdir()
    (half / "state.safetensors").write_bytes(b"half")
    assert kept.names()[-1] == "epoch-00000005"
    kept.clear_unfinished()
    assert not half.exists()
    assert len(kept.names()) == 3
