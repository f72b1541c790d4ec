"""What is on disk is what was written there, or it is refused by name."""

import contextlib
import json
import random

import pytest

from temperflow.app import manifest as module
from temperflow.app.manifest import Manifest, Refused

CONTENT = bytes(random.Random(0).randbytes(500))


def committed(folder):
    (folder / "a.bin").write_bytes(CONTENT)
    Manifest.of({"a.bin": CONTENT}, {"epoch": 3}).write(folder)


def damaged():
    """Twenty files that differ from the original in one bit, and twenty that are cut short."""
    choice = random.Random(1)
    for _ in range(20):
        place, bit = choice.randrange(len(CONTENT)), 1 << choice.randrange(8)
        yield CONTENT[:place] + bytes([CONTENT[place] ^ bit]) + CONTENT[place + 1 :]
    for _ in range(20):
        yield CONTENT[: choice.randrange(len(CONTENT))]


def undetected(folder):
    """How many damaged files are read as if they were sound."""
    missed = 0
    for content in damaged():
        (folder / "a.bin").write_bytes(content)
        with contextlib.suppress(Refused):
            Manifest.read(folder).load(folder, "a.bin")
            missed += 1
    return missed


def test_a_sound_file_is_read(tmp_path):
    committed(tmp_path)
    manifest = Manifest.read(tmp_path)
    assert manifest.load(tmp_path, "a.bin") == CONTENT
    assert manifest.about == {"epoch": 3}
    assert manifest.versions["jax"]


def test_every_damage_is_refused(tmp_path):
    committed(tmp_path)
    assert undetected(tmp_path) == 0


def test_without_the_digest_flipped_bits_pass(tmp_path, monkeypatch):
    committed(tmp_path)
    monkeypatch.setattr(
        module,
        "digest",
        lambda content: json.loads((tmp_path / "manifest.json").read_text())["files"]["a.bin"]["sha256"],
    )
    assert undetected(tmp_path) >= 20


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"not json",
        b'{"format": 99, "files": {}, "about": {}, "versions": {}}',
        b'{"format": 1, "files": {"a.bin": {}}, "about": {}, "versions": {}}',
        b"\xff\xfe",
    ],
)
def test_a_manifest_that_is_none_is_refused(tmp_path, content):
    committed(tmp_path)
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(Refused, match=r"manifest\.json"):
        Manifest.read(tmp_path)


def test_missing_and_unlisted_files_are_refused(tmp_path):
    with pytest.raises(Refused, match=r"without manifest\.json"):
        Manifest.read(tmp_path)
    committed(tmp_path)
    (tmp_path / "b.bin").write_bytes(CONTENT)
    with pytest.raises(Refused, match=r"b\.bin, which the manifest does not list"):
        Manifest.read(tmp_path).load(tmp_path, "b.bin")
    (tmp_path / "a.bin").unlink()
    with pytest.raises(Refused, match=r"a\.bin that cannot be read"):
        Manifest.read(tmp_path).load(tmp_path, "a.bin")
