"""One whole tiny run and one compiled stepper of it, for all tests of this folder: compiling is what costs."""

import pytest
import tiny_run

from temperflow.app.build import build
from temperflow.app.recipes import get
from temperflow.app.stepper import Stepper, owned
from temperflow.targets import get as target_of


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A run that nothing interrupted: epochs in chunks, two checkpoints."""
    return tiny_run.run(tmp_path_factory.mktemp("runs") / "whole", checkpoint_every=30.0)


@pytest.fixture(scope="session")
def tiny():
    """Trainer, stepper and a maker of start states of the same run."""
    built = build(get("quick").override(tiny_run.OVERRIDES), target_of("gmm9"), None, 0)

    def fresh():
        return owned(built.trainer.start(built.model, 0))

    return built, Stepper(built.trainer, fresh()), fresh
