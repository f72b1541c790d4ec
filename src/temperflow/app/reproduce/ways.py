"""The ways to get draws: what each does to a batch, stage by stage."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from temperflow.app.reproduce import classical, measuring, training
from temperflow.app.reproduce.batch import Batch
from temperflow.app.reproduce.session import Session


def _nothing(batch: Batch, session: Session) -> None:
    """For a way whose making is its drawing."""


@dataclass(frozen=True)
class Way:
    """Stages of a batch; each takes up what the one before has committed, and what it has itself.

    Args:
        make: whatever draws come from.
        draw: keep every seed's draws.
        figures: of one seed's draws; None where there are none.
    """

    make: Callable[[Batch, Session], None]
    draw: Callable[[Batch, Session], None]
    figures: Callable[[Batch, int], dict[str, Any] | None]


WAYS: dict[str, Way] = {
    "training": Way(training.train, measuring.draw, measuring.figures),
    **{name: Way(make, _nothing, classical.figures) for name, make in classical.MAKERS.items()},
}
