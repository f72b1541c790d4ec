"""Imports point only left, and the files stay short."""

import pytest
from source_tree import ROOT, STAGES, imports, modules, stage_of

LONGEST = 320


def backward_imports(name, source):
    """What a module takes from a stage to its right, or from the package's front door."""
    allowed = STAGES[: STAGES.index(stage_of(name)) + 1]
    for imported, line in imports(source):
        if imported.split(".")[0] == "temperflow" and stage_of(imported) not in allowed:
            # The application may look at the front door, where the version is written.
            if stage_of(name) == "app" and stage_of(imported) not in STAGES:
                continue
            yield f"{name}:{line} imports {imported}"


def test_every_folder_is_a_stage():
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert folders == set(STAGES)


def test_imports_point_left():
    offences = [offence for name, source in modules().items() for offence in backward_imports(name, source)]
    assert not offences


@pytest.mark.parametrize(
    "planted",
    [
        "from temperflow.training import Loss",
        "import temperflow.app.runner",
        "def later():\n    from temperflow.sampling.draws import Draws",
        "from temperflow import training",
        "import temperflow",
    ],
)
def test_a_planted_import_from_the_right_is_caught(planted):
    assert list(backward_imports("temperflow.proposals.planted", planted))


def test_an_import_from_the_left_is_not():
    assert not list(backward_imports("temperflow.proposals.fine", "from temperflow.paths import Continuum\nimport jax"))


def overlong(sources):
    return {name: lines for name, source in sources.items() if (lines := source.count("\n")) > LONGEST}


def test_files_stay_short():
    assert not overlong(modules())


def test_an_overlong_file_is_caught():
    assert overlong({"temperflow.paths.planted": "pass\n" * (LONGEST + 1)})
