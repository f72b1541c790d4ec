"""The training of one run in its directory: survey, checkpoints, epochs, sampler."""

import time

import jax

from temperflow.app import shipped
from temperflow.app.build import Survey, build, needs_survey, survey_of
from temperflow.app.checkpoint import Checkpoints
from temperflow.app.events import EventLog
from temperflow.app.files import to_json
from temperflow.app.loop import Journey, Loop
from temperflow.app.manifest import Refused, versions
from temperflow.app.preflight import Preflight
from temperflow.app.run_directory import SAMPLER, SURVEY, RunDirectory, Settings
from temperflow.app.signals import StopRequest
from temperflow.app.stepper import Anchor, Stepper, owned
from temperflow.targets import Target
from temperflow.training import TrainState


def train(
    directory: RunDirectory,
    settings: Settings,
    target: Target,
    looked: Preflight,
    log: EventLog,
    checkpoint_every: float,
    notify: bool,
) -> None:
    """Survey where one is needed, train from the newest good checkpoint on, and commit the sampler.

    Args:
        directory: of the run; locked, its settings written.
        settings: those.
        target: what to sample.
        looked: what the preflight showed.
        log: where to tell.
        checkpoint_every: least seconds between two checkpoints.
        notify: tell a person who asks to stop that it was heard.
    """
    seed, epochs = settings.seed, settings.config.training.epochs
    device = jax.devices()[0]
    log.write("started", seed=seed, epochs=epochs, versions=versions(), device=device.device_kind)
    for warning in looked.warnings:
        log.write("warning", message=warning)
    survey = _surveyed(directory, settings, target, log)
    built = build(settings.config, target, survey, seed)
    calls = looked.energy_calls + (0 if survey is None else survey.energy_calls)

    def fresh() -> TrainState:
        return owned(built.trainer.start(built.model, seed))

    start = fresh()
    checkpoints = Checkpoints(directory.checkpoints, directory.identity)
    journey = _restored(checkpoints, Journey(start, Anchor.of(start)), log)
    stepper = Stepper(built.trainer, start)
    loop = Loop(built.trainer, stepper, fresh, epochs, checkpoints, log, calls, checkpoint_every, str(directory.path))
    log.write("compiling")
    with StopRequest(notify) as stop:
        journey = loop.run(journey, stop)
        directory.write(SAMPLER, shipped.to_bytes(journey.state))
    log.write(
        "finished",
        epoch=epochs,
        seconds=round(journey.seconds, 4),
        energy_calls=calls + epochs * built.trainer.calls_per_epoch,
    )
    log.sync()


def _surveyed(directory: RunDirectory, settings: Settings, target: Target, log: EventLog) -> Survey | None:
    """The pilot's findings, from the directory if it has them; they follow from the settings."""
    if not needs_survey(settings.config):
        return None
    try:
        found = directory.survey()
    except Refused as reason:
        log.write("refused", name=SURVEY, reason=reason.got)
        found = None
    if found is None:
        log.write("surveying")
        began = time.monotonic()
        found = survey_of(settings.config, target, settings.seed)
        seconds = round(time.monotonic() - began, 4)
        directory.write(SURVEY, to_json(found.to_dict()))
        log.write("surveyed", scale=found.scale, energy_calls=found.energy_calls, seconds=seconds)
    # Read back, so that the first process and those that resume work with the same digits.
    survey = directory.survey()
    assert survey is not None
    return survey


def _restored(checkpoints: Checkpoints, start: Journey, log: EventLog) -> Journey:
    """The newest good checkpoint, or the start."""
    checkpoints.clear_unfinished()
    existed = bool(checkpoints.names())
    restored = checkpoints.restore(start.to_tree())
    for name, reason in restored.refused:
        log.write("refused", name=name, reason=reason)
    if restored.tree is None:
        if existed:
            log.write("resumed", epoch=0)
        return start
    written, now = restored.about.get("versions", {}), versions()
    if changed := [f"{name} {written[name]} -> {now.get(name)}" for name in written if written[name] != now.get(name)]:
        log.write("warning", message=f"other versions than began this run, so other digits: {', '.join(changed)}")
    state = owned(restored.tree["state"])
    log.write("resumed", epoch=int(state.epoch))
    return Journey(state, Anchor(restored.tree["anchor"]), float(restored.about["seconds"]))
