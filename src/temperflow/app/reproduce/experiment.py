"""An experiment in its directory, over as many sessions as it takes: make, draw, measure, write down."""

from collections.abc import Sequence
from pathlib import Path

from temperflow.app.errors import UsageError
from temperflow.app.files import explained, locked, to_json
from temperflow.app.reproduce.batch import BATCH, MADE, Batch, batches, figures_file
from temperflow.app.reproduce.results import write
from temperflow.app.reproduce.rows import Experiment
from temperflow.app.reproduce.session import Session, device, stoppable
from temperflow.app.reproduce.ways import WAYS
from temperflow.app.run_directory import RunDirectory

EXPERIMENT = "experiment.json"


def carry_out(experiment: Experiment, place: Path, seeds: int, session: Session) -> list[str]:
    """Do what is missing, as far as the session's time goes, and write down what there is.

    The accelerator's work comes first, batch by batch; what can be measured anywhere comes after.

    Args:
        experiment: what is asked for.
        place: its directory.
        seeds: of every row.
        session: how long, and whom to tell.

    Returns:
        What is still missing, a sentence each.

    Raises:
        UsageError: the directory holds something else, or another process works in it.
        Stopped: a signal came; what had been done is committed.
    """
    if place.exists() and not place.is_dir():
        raise UsageError(got=f"{place}, a file", expected="a directory", todo="choose another --out")
    with explained(place):
        place.mkdir(parents=True, exist_ok=True)
    with locked(place):
        _begin(experiment, place, session)
        wanted = batches(place, experiment.rows, seeds)
        for batch in wanted:
            if _may_go_on(batch, wanted, session):
                _make(batch, session)
        for batch in wanted:
            _measure(batch, session)
        missing = [line for batch in wanted if (line := _lacking(batch))]
        with stoppable("writing the tables"):
            write(experiment, place, missing, session.n, session.trials)
    return missing


def _begin(experiment: Experiment, place: Path, session: Session) -> None:
    """Write what decides the directory, or refuse one that something else decides."""
    decided = {
        "format": 1,
        "experiment": experiment.name,
        **experiment.about,
        "n": session.n,
        "trials": session.trials,
    }
    directory = RunDirectory(place)
    there = directory.read_json(EXPERIMENT)
    if there is None:
        # A process that died while it wrote its first file leaves that file's draft alone behind.
        others = [entry.name for entry in place.iterdir() if not entry.name.startswith(".")]
        if others:
            raise UsageError(
                got=f"{place}, which holds {others[0]!r} and no experiment",
                expected="a new or empty directory, or that of this experiment",
                todo="choose another --out",
            )
        directory.write(EXPERIMENT, to_json(decided))
    elif there != decided:
        names = [name for name in {**there, **decided} if there.get(name) != decided.get(name)]
        told = "; ".join(f"{name}: {there.get(name)!r} there, {decided.get(name)!r} now" for name in names)
        raise UsageError(
            got=f"{place}, which holds another experiment ({told})",
            expected="one experiment a directory",
            todo="choose another --out",
        )


def _may_go_on(batch: Batch, others: Sequence[Batch], session: Session) -> bool:
    """Whether there is time for it: for one that has not begun, to be done at the slowest pace measured so far.

    Where nothing has been measured on this device it may begin: a checkpoint saves what it does.
    """
    if session.budget.over:
        return False
    paces = [pace for other in others if (pace := _pace(other, batch)) is not None]
    return batch.has(BATCH) or not paces or max(paces) * _work(batch) <= session.budget.left()


def _work(batch: Batch) -> float:
    """What a training of these settings has to do, up to a factor of the machine's."""
    training = batch.row.config.training
    return float(training.epochs * training.iterations * training.batch * len(batch.seeds))


def _pace(other: Batch, batch: Batch) -> float | None:
    """Seconds of another batch made in the same way for the work it had, if it was made on this device."""
    if not other.made or other.row.way != batch.row.way:
        return None
    told = other.read_json(MADE)
    return told["seconds"] / _work(other) if told["device"] == device() else None


def _make(batch: Batch, session: Session) -> None:
    batch.begin()
    way = WAYS[batch.row.way]
    with stoppable(f"{batch.row.name} on {batch.row.target}"):
        if not batch.made:
            session.say(f"{batch.row.name} on {batch.row.target}, seeds {', '.join(map(str, batch.seeds))}")
            way.make(batch, session)
        if batch.made and not all(map(batch.drawn, batch.seeds)):
            session.say(f"{batch.row.name}: drawing")
            way.draw(batch, session)


def _measure(batch: Batch, session: Session) -> None:
    for seed in batch.seeds:
        if batch.made and batch.drawn(seed) and not batch.measured(seed) and not session.budget.over:
            session.say(f"{batch.row.name} on {batch.row.target}: measuring seed {seed}")
            with stoppable(f"measuring seed {seed} of {batch.row.name}"):
                found = WAYS[batch.row.way].figures(batch, seed)
            batch.write(figures_file(seed), to_json({"figures": found}))


def _progress(batch: Batch) -> str:
    """How far the making of a batch has come."""
    if batch.epoch:
        return f"trained for {batch.epoch} of {batch.row.config.training.epochs} epochs"
    # Samplers without training make one seed after the other.
    done = [seed for seed in batch.seeds if batch.drawn(seed)]
    return f"seed {', '.join(map(str, done))} is done" if done else "not begun"


def _lacking(batch: Batch) -> str | None:
    """What of a batch is not there yet."""
    open_seeds = [seed for seed in batch.seeds if not (batch.made and batch.measured(seed))]
    if not open_seeds:
        return None
    name = f"{batch.row.name} on {batch.row.target}, seeds {', '.join(map(str, open_seeds))}"
    if not batch.made:
        return f"{name}: {_progress(batch)}"
    return f"{name}: not {'measured' if all(map(batch.drawn, open_seeds)) else 'drawn from'}"
