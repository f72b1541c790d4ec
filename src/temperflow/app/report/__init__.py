"""The report: one self-contained page about a run, the verdict first."""

from pathlib import Path

from temperflow.app.files import locked, write_atomically
from temperflow.app.report.page import assemble
from temperflow.app.report.subject import read_subject
from temperflow.app.run_directory import REPORT, RunDirectory
from temperflow.targets import Target

__all__ = ["write"]


def write(directory: str | Path, target: Target | None = None) -> Path:
    """Write `report.html` and `figures/` into a run directory, and return the page's path.

    A run that has not finished is shown as far as its newest checkpoint. The page needs no
    network and holds everything, the exact configuration included.

    Args:
        directory: of a run.
        target: needed where it was a function in memory.
    """
    place = RunDirectory(Path(directory))
    subject = read_subject(place.path, target)
    page, figures = assemble(subject)
    with locked(place.path):
        (place.path / "figures").mkdir(exist_ok=True)
        contents = {f"figures/{name}.svg": svg.encode() for name, svg in figures.items()}
        contents[REPORT] = page.encode()
        for name, content in contents.items():
            write_atomically(place.path / name, content)
        place.seal(list(contents))
    return place.path / REPORT
