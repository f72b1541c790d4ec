"""Every piece of Python that the documentation shows runs as it stands.

The blocks of a page run one after the other in one namespace, in an empty folder, under JAX's own
defaults, as a reader would run them. One thing is made smaller: `recipes.get` gives a tiny recipe,
so that a run takes seconds. The text of the blocks is not touched.
"""

import ast
import importlib.util
from dataclasses import replace

import jax
import pages
import pytest

from temperflow.app import recipes
from temperflow.app.config import Config

# What a page may use that the package does not need; a block that does is left out where it is not installed.
OPTIONAL = {"numpyro", "pymc"}

TINY = Config().override(
    {
        "training.iterations": 4,
        "training.batch": 64,
        "training.walkers": 64,
        "training.steps": 12,
        "network.width": 16,
        "network.depth": 2,
        "network.position_frequencies": 8,
        "sampling.flow_steps": 8,
        "sampling.anneal_steps": 10,
        "sampling.islands": 4,
    }
)


def with_python():
    return [page for page in pages.PAGES if pages.blocks(page, "python")]


def imported(code):
    """The packages that a block imports, by their first names."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def missing(code):
    return {name for name in imported(code) if name in OPTIONAL and importlib.util.find_spec(name) is None}


@pytest.mark.parametrize("page", with_python())
def test_the_code_of_the_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(recipes, "get", lambda name: replace(TINY, recipe=name))
    namespace, run = {"__name__": "page"}, 0
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        for block in pages.blocks(page, "python"):
            if missing(block.code):
                continue
            # Blank lines before it, so that a traceback names the line of the page.
            code = compile("\n" * (block.line - 1) + block.code, str(pages.PAGES[page]), "exec")
            exec(code, namespace)
            run += 1
    assert run


def test_a_mistake_in_a_block_is_noticed(tmp_path, monkeypatch):
    page = tmp_path / "broken.md"
    page.write_text("Text.\n\n```python\nimport temperflow\ntemperflow.fits\n```\n", encoding="utf-8")
    monkeypatch.setitem(pages.PAGES, page.name, page)
    with pytest.raises(AttributeError, match="fits"):
        test_the_code_of_the_page_runs(page.name, tmp_path, monkeypatch)
