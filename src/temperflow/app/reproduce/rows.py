"""What an experiment is made of: rows, each one way to get draws of one target."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from temperflow.app.config import Config, Section
from temperflow.app.errors import UsageError, suggestion


@dataclass(frozen=True)
class Row:
    """One way to get draws of one target.

    Args:
        name: a base, and after plus signs what was changed in it.
        target: a name that `targets.get` knows.
        config: all settings of what trains; of a row that trains nothing, those of the training whose
            energy calls it may spend.
        way: how its draws are made, a name in `ways.WAYS`.

    >>> row = Row("paper/ctds+clipped", "gmm40", Config())
    >>> row.base, row.change
    ('paper/ctds', 'clipped')
    """

    name: str
    target: str
    config: Config
    way: str = "training"

    @property
    def base(self) -> str:
        """Its name without what was changed."""
        return self.name.partition("+")[0]

    @property
    def change(self) -> str | None:
        """What was changed in the base."""
        return self.name.partition("+")[2] or None


@dataclass(frozen=True)
class Published:
    """A paper's figures of a row, each with its spread over evaluation redraws of one training run."""

    label: str
    w2: tuple[float, float]
    elbo: tuple[float, float]
    eubo: tuple[float, float]


@dataclass(frozen=True)
class Experiment:
    """Some rows, and how to show what they come to.

    Args:
        name: of its files.
        title: of its page.
        about: what else decides it, by name.
        rows: what to do, most telling first.
        order: bases of rows as tables list them.
        panels: the scatter's, left to right: of each the rows that would do, best first.
        tempered: the row whose temperatures are drawn; None for none.
        published: a paper's figures by row.
    """

    name: str
    title: str
    about: Mapping[str, str]
    rows: tuple[Row, ...]
    order: tuple[str, ...]
    panels: tuple[tuple[str, ...], ...]
    tempered: str | None = None
    published: Mapping[str, Published] = field(default_factory=dict)

    def place_of(self, row: Row) -> tuple[str, int, str, str]:
        """Where tables list it: by target, then bases in order, each before its changes."""
        known = self.order.index(row.base) if row.base in self.order else len(self.order)
        return row.target, known, row.base, row.change or ""

    def label(self, name: str) -> str:
        """What to call a row under a picture."""
        return self.published[name].label if name in self.published else name


def chosen(names: Iterable[str], known: Iterable[str], kind: str) -> list[str]:
    """The names as they are, each once, if all are known.

    Raises:
        UsageError: one is not.
    """
    there, wanted = list(known), list(dict.fromkeys(names))
    for name in wanted:
        if name not in there:
            raise UsageError(
                got=f"the {kind} {name!r}",
                expected=f"one of {', '.join(there)}",
                todo=suggestion(name, there, "choose one of them"),
            )
    return wanted


def differences(one: Config, other: Config) -> dict[str, tuple[Any, Any]]:
    """Settings by path in which two differ, with both values; the recipe's name is none of them.

    >>> differences(Config(), Config().override({"training.epochs": 7}))
    {'training.epochs': (200, 7)}
    """
    first, second = dict(_settings(one)), dict(_settings(other))
    return {name: (value, second[name]) for name, value in first.items() if value != second[name] and name != "recipe"}


def _settings(section: Section, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for entry in dataclasses.fields(section):  # pyright: ignore[reportArgumentType]
        value = getattr(section, entry.name)
        if isinstance(value, Section):
            yield from _settings(value, f"{prefix}{entry.name}.")
        else:
            yield prefix + entry.name, value
