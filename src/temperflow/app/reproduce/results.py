"""What an experiment's directory shows of what it holds: data, a page, pictures."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load

from temperflow import targets
from temperflow.app.files import explained, to_json, write_atomically
from temperflow.app.reproduce import pictures
from temperflow.app.reproduce.batch import TEMPERATURES, Batch, draws_file, found_in
from temperflow.app.reproduce.records import document
from temperflow.app.reproduce.rows import Experiment
from temperflow.app.reproduce.table import page
from temperflow.app.run_directory import RunDirectory

FIGURES = "figures"


def write(experiment: Experiment, place: Path, missing: Sequence[str], n: int, trials: int) -> None:
    """The data, the page and the pictures, of everything that the directory holds.

    Args:
        experiment: what was asked for.
        place: its directory.
        missing: what is not there yet.
        n: draws an evaluation redraw.
        trials: redraws.
    """
    there = sorted(found_in(place), key=lambda batch: (experiment.place_of(batch.row), batch.seeds))
    with explained(place):
        (place / FIGURES).mkdir(exist_ok=True)
    names = []
    for name, drawing in _drawings(experiment, there):
        write_atomically(place / FIGURES / name, drawing.encode())
        names.append(f"{FIGURES}/{name}")
    data = document(experiment, there, missing, n, trials)
    directory = RunDirectory(place)
    directory.write(f"{experiment.name}.json", to_json(data))
    directory.write(f"{experiment.name}.md", page(experiment, data, names).encode())


def _drawings(experiment: Experiment, there: Sequence[Batch]) -> Iterator[tuple[str, str]]:
    """Every picture that can be drawn so far, with the name of its file."""
    for target in dict.fromkeys(batch.row.target for batch in there):
        # A row's first seeds stand for it.
        mine = {batch.row.name: batch for batch in reversed(there) if batch.row.target == target}
        if panels := dict(_panels(experiment, mine)):
            yield f"scatter-{target}.svg", pictures.scatter(targets.get(target), panels)
        shown = mine.get(experiment.tempered or "")
        if shown is not None and shown.has(TEMPERATURES):
            heat, stored = shown.row.config.temperature, load(shown.load(TEMPERATURES))
            yield f"temperatures-{target}.svg", pictures.temperatures(stored["before"], stored["after"], heat.hottest)
            yield f"temperature-map-{target}.svg", pictures.temperature_map(heat)


def _panels(experiment: Experiment, mine: dict[str, Batch]) -> Iterator[tuple[str, np.ndarray]]:
    """Title and one redraw of the best row there is for each panel."""
    for alternatives in experiment.panels:
        for name in alternatives:
            x = _points(mine[name]) if name in mine else None
            if x is not None:
                yield experiment.label(name), x
                break


def _points(batch: Batch) -> np.ndarray | None:
    """The first redraw of the first seed that has any."""
    for seed in batch.seeds:
        if batch.drawn(seed) and (stored := load(batch.load(draws_file(seed)))):
            return stored["x"][0]
    return None
