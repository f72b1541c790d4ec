"""Misuse that no table of words can set up: what is not installed, not writable, not there, not as it was left."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import pytest
import tiny_run
from test_misuse import is_one_message

import temperflow as tflow
from temperflow.app import runner
from temperflow.app.cli import main
from temperflow.app.files import locked

SETTINGS = [f"--{name}={value}".lower() for name, value in tiny_run.OVERRIDES.items()]
# The system refuses to make anything here, to root as well.
UNWRITABLE = Path("/sys/kernel")


@pytest.fixture
def told(capsys):
    """Carry out some words: their status and what is said on standard error."""

    def carry_out(*words):
        status = main([str(word) for word in words])
        return status, capsys.readouterr().err

    return carry_out


@pytest.fixture
def done(whole, tmp_path):
    """A finished run of one's own to spoil."""
    shutil.copytree(whole.directory, tmp_path / "done")
    return tmp_path / "done"


def without(monkeypatch, *packages):
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


def test_tensorboard_that_is_not_installed_is_missed_before_anything_is_made(told, tmp_path, monkeypatch):
    without(monkeypatch, "tensorboardX")
    status, text = told("run", "gmm9", "--tensorboard", "--out", tmp_path / "run")
    assert status == 2
    assert is_one_message(text)
    assert "pip install 'temperflow[tensorboard]'" in text
    assert not list(tmp_path.iterdir())


def test_parquet_that_is_not_installed_is_missed_and_leaves_nothing(told, done, tmp_path, monkeypatch):
    without(monkeypatch, "pyarrow", "pyarrow.parquet")
    status, text = told("sample", done, "-n", 5, "--out", tmp_path / "a.parquet")
    assert status == 2
    assert is_one_message(text)
    assert "pip install 'temperflow[parquet]'" in text
    assert [entry.name for entry in tmp_path.iterdir()] == ["done"]


@pytest.mark.skipif(not UNWRITABLE.is_dir(), reason="needs a folder that nobody can write to")
@pytest.mark.parametrize("command", ["run", "sample"])
def test_where_nothing_can_be_written(told, done, command):
    words = {
        "run": ("run", "gmm9", "--out", UNWRITABLE / "temperflow"),
        "sample": ("sample", done, "-n", 5, "--out", UNWRITABLE / "a.npz"),
    }[command]
    status, text = told(*words)
    assert status == 2
    assert is_one_message(text)
    assert "expected to write there" in text
    assert str(UNWRITABLE) in text


def test_a_device_that_is_not_there():
    """JAX looks for its devices once a process."""
    program = "import sys; from temperflow.app.cli import main; sys.exit(main(['targets']))"
    ended = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "JAX_PLATFORMS": "cuda"}, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert "got JAX_PLATFORMS='cuda', and no such device" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_second_process(told, done):
    with locked(done):
        status, text = told("resume", done)
    assert status == 2
    assert is_one_message(text)
    assert f"in use by process {os.getpid()}" in text


def spoilt(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["sampler.safetensors", "config.json", "manifest.json"])
def test_a_file_that_is_not_what_was_written(told, done, tmp_path, name):
    if name == "manifest.json":
        (done / name).write_text("{")
    else:
        spoilt(done / name)
    status, text = told("sample", done, "-n", 5, "--out", tmp_path / "a.npz")
    assert status == 2
    assert is_one_message(text)
    assert name in text
    assert not (tmp_path / "a.npz").exists()


def test_settings_of_a_version_to_come(told, done):
    config = json.loads((done / "config.json").read_text())
    config["config"]["training"]["wisdom"] = 3
    place = runner.RunDirectory(done)
    place.write("config.json", json.dumps(config).encode())
    status, text = told("evaluate", done)
    assert status == 2
    assert is_one_message(text)
    assert "there is no setting 'training.wisdom'" in text


@pytest.mark.parametrize("change", ["edited", "gone"])
def test_a_file_that_is_no_longer_the_runs(told, tmp_path, change):
    path = tmp_path / "model.py"
    path.write_text("import jax.numpy as jnp\ndef log_density(x): return -0.5 * jnp.sum(x**2)\n")
    overrides = tiny_run.OVERRIDES | {"training.epochs": 1}
    tflow.fit(f"{path}:log_density", "quick", tmp_path / "run", dim=2, overrides=overrides, progress=False)
    if change == "edited":
        path.write_text(path.read_text().replace("0.5", "0.6"))
    else:
        path.unlink()
    status, text = told("sample", tmp_path / "run", "-n", 5, "--out", tmp_path / "a.npz")
    assert status == 2
    assert is_one_message(text)
    assert str(path) in text
    assert ("has changed since the run" in text) == (change == "edited")


def test_a_function_in_memory_cannot_be_found_again(told, tmp_path):
    target = tflow.Target(lambda x: -0.5 * jnp.sum(x**2), dim=2, name="mine")
    overrides = tiny_run.OVERRIDES | {"training.epochs": 1}
    tflow.fit(target, "quick", tmp_path / "run", overrides=overrides, progress=False)
    status, text = told("evaluate", tmp_path / "run")
    assert status == 2
    assert is_one_message(text)
    assert "was a function in memory" in text
    with pytest.raises(tflow.UsageError, match="other values than the run's"):
        tflow.load(tmp_path / "run", target=tflow.Target(lambda x: -jnp.sum(x**2), dim=2))


def test_numbers_that_go_bad_twice_end_with_three(told, tmp_path):
    words = ["run", "gmm9", "--recipe=quick", "--quiet", "--out", tmp_path / "run", *SETTINGS]
    status, text = told(*words, "--training.learning_rate=1e30", "--training.clip=none")
    assert status == 3
    assert is_one_message(text)
    assert "again after going back with half the learning rate" in text


def test_a_traceback_is_for_those_who_ask(told, tmp_path):
    _, text = told("report", tmp_path, "--debug")
    assert "Traceback (most recent call last)" in text
    assert text.rstrip().splitlines()[-1].startswith("to do: ")
    _, text = told("report", tmp_path)
    assert is_one_message(text)


IN_PYTHON = {
    "a recipe": (lambda: tflow.fit("gmm9", "quik"), "did you mean 'quick'"),
    "a setting": (lambda: tflow.fit("gmm9", overrides={"training.epoch": 3}), "did you mean 'training.epochs'"),
    "a kind": (lambda: tflow.fit("gmm9", overrides={"training.epochs": "3"}), "expected a value of type int"),
    "a seed": (lambda: tflow.fit("gmm9", seed=-1), "seed=-1"),
    "a name": (lambda: tflow.fit("gmm04"), "did you mean 'gmm40'"),
    "a dimension": (lambda: tflow.fit(tflow.Target(lambda x: -jnp.sum(x**2), dim=0)), "dim=0"),
    "a directory": (lambda: tflow.load("nowhere"), "nowhere, which holds no run"),
}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_in_python_the_same_is_raised(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    carry_out, piece = IN_PYTHON[name]
    with pytest.raises(tflow.UsageError) as caught:
        carry_out()
    assert piece in str(caught.value)
    assert not list(tmp_path.iterdir())
