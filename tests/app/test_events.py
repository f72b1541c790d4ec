"""Events: what is written is read back, however the writer ended."""

import json

import pytest

from temperflow.app.events import EventLog, history, read
from temperflow.app.manifest import Refused


def test_what_is_written_is_read_and_shown(tmp_path):
    path, seen = tmp_path / "events.jsonl", []
    with EventLog(path, [seen.append]) as log:
        log.write("started", versions={"jax": "1"}, share=0.5)
        log.write_all([{"kind": "epoch", "epoch": 1, "loss": float("nan")}, {"kind": "epoch", "epoch": 2, "loss": 1.0}])
    events = read(path)
    assert events == seen
    assert [event["kind"] for event in events] == ["started", "epoch", "epoch"]
    assert events[1]["loss"] is None
    assert all(event["time"] > 1.6e9 for event in events)


def test_every_prefix_of_the_file_can_be_read_and_gone_on_from(tmp_path):
    path = tmp_path / "events.jsonl"
    with EventLog(path) as log:
        for epoch in range(3):
            log.write("epoch", epoch=epoch, name="ß")
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        whole = content[:length].count(b"\n")
        assert [event["epoch"] for event in read(path)] == list(range(whole))
        with EventLog(path) as log:
            log.write("resumed", epoch=0)
        assert [event["kind"] for event in read(path)] == ["epoch"] * whole + ["resumed"]
        assert all(json.loads(line) for line in path.read_bytes().splitlines())


def test_a_spoilt_line_is_named(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_text('{"kind": "started"}\n{"kind": \n{"kind": "finished"}\n')
    with pytest.raises(Refused, match=r"line 2 of .*events\.jsonl"):
        read(path)


def test_history_forgets_what_was_done_over():
    def epoch(number, loss):
        return {"kind": "epoch", "epoch": number, "loss": loss}

    events = [
        *(epoch(n, 0.0) for n in range(1, 6)),
        {"kind": "checkpoint", "epoch": 3},
        {"kind": "resumed", "epoch": 3},
        *(epoch(n, 1.0) for n in range(4, 8)),
        {"kind": "rolled_back", "epoch": 2},
        *(epoch(n, 2.0) for n in range(3, 5)),
    ]
    assert [(event["epoch"], event["loss"]) for event in history(events)] == [(1, 0.0), (2, 0.0), (3, 2.0), (4, 2.0)]
