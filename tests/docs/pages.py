"""The documentation as the tests see it: its pages and the code in them."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = {path.name: path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A piece of code as a page shows it.

    Args:
        page: the file's name.
        line: of the page at which the code begins.
        language: after the fence.
        code: as shown.
    """

    page: str
    line: int
    language: str
    code: str


def text(page):
    return PAGES[page].read_text(encoding="utf-8")


def blocks(page, language):
    """Those of one language, in the page's order."""
    shown = text(page)
    return [
        Block(page, shown.count("\n", 0, found.start()) + 2, found[1], found[2])
        for found in _FENCE.finditer(shown)
        if found[1] == language
    ]


def rows(page):
    """The cells of every table row."""
    lines = [line for line in text(page).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
