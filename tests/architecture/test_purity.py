"""The core computes and does nothing else: no file, clock, print, environment variable or global."""

import ast

import pytest
from source_tree import CORE, imports, modules

# Everything else is an effect until someone argues otherwise, here.
ALLOWED = {
    *("abc", "collections", "dataclasses", "difflib", "functools", "inspect", "itertools", "math", "typing"),
    *("diffrax", "equinox", "jax", "jaxtyping", "numpy", "optax", "scipy"),
    "temperflow",
}
# The doors that have been argued for: the means that ship inside the package, and draws that a
# user saves. Both open only when they are asked to.
DOORS = {
    "temperflow.targets.mixtures": {"importlib.resources"},
    "temperflow.sampling.draws": {"pathlib.Path", "arviz_base.from_dict", "xarray.DataTree"},
}
EFFECTS = {"print", "open", "input", "exec", "eval", "breakpoint", "globals", "__import__"}
# Callbacks reach out of a compiled program; these would make jax itself impure.
JAX_EFFECTS = {"debug", "io_callback", "pure_callback", "config"}
MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def foreign_imports(name, source):
    for imported, line in imports(source):
        doors = DOORS.get(name, set())
        root, *rest = imported.split(".")
        if root not in ALLOWED and imported not in doors:
            yield f"{name}:{line} imports {imported}"
        if root == "jax" and JAX_EFFECTS & set(rest):
            yield f"{name}:{line} imports {imported}"


def effects(name, source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Global | ast.Nonlocal):
            yield f"{name}:{node.lineno} rebinds {', '.join(node.names)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EFFECTS:
            yield f"{name}:{node.lineno} calls {node.func.id}"
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if owner == "jax" and node.attr in JAX_EFFECTS:
                yield f"{name}:{node.lineno} uses jax.{node.attr}"
            # numpy's own generator is a global; one with a seed is a value.
            if owner in ("np.random", "numpy.random") and node.attr not in ("default_rng", "Generator"):
                yield f"{name}:{node.lineno} uses numpy's global generator"
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("random.default_rng") and not node.args:
            yield f"{name}:{node.lineno} draws a seed from the machine"


def module_state(name, source):
    """Mutable containers at module level under anything but a CONSTANT's name, and caches."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, MUTABLE):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                label = ast.unparse(target)
                if label != "__all__" and not label.isupper():
                    yield f"{name}:{node.lineno} holds {label} at module level"


def offences(name, source):
    return [*foreign_imports(name, source), *effects(name, source), *module_state(name, source)]


def test_the_core_is_pure():
    found = [offence for name, source in modules(CORE).items() for offence in offences(name, source)]
    assert not found


def test_every_door_is_still_used():
    sources = modules(CORE)
    for name, doors in DOORS.items():
        assert doors <= {imported for imported, _ in imports(sources[name])}


@pytest.mark.parametrize(
    "planted",
    [
        "import os",
        "import logging",
        "from rich.progress import track",
        "import orbax.checkpoint",
        "import time",
        "from datetime import datetime",
        "import pathlib",
        "from arviz_base import from_dict",
        "import random",
        "print('hello')",
        "def f(x):\n    jax.debug.print('{}', x)",
        "from jax.experimental import io_callback",
        "jax.config.update('jax_enable_x64', True)",
        "def f():\n    global seen\n    seen = 1",
        "seen = []",
        "_cache: dict = {}",
        "with open('file') as file:\n    pass",
        "import numpy as np\nnoise = np.random.normal()",
        "import numpy as np\nnoise = np.random.default_rng().normal()",
    ],
)
def test_a_planted_effect_is_caught(planted):
    assert offences("temperflow.paths.planted", planted)
