"""The package's source as syntax trees: what the tests of this folder walk."""

import ast
from pathlib import Path

import temperflow

ROOT = Path(temperflow.__file__).parent
# Left to right; a stage may import from those before it, and from itself.
STAGES = ("targets", "paths", "models", "proposals", "training", "sampling", "diagnostics", "baselines", "app")
CORE = STAGES[:-1]


def modules(stages=STAGES):
    """(dotted name, source) of every file of the stages."""
    found = {}
    for stage in stages:
        for file in sorted((ROOT / stage).rglob("*.py")):
            parts = file.relative_to(ROOT.parent).with_suffix("").parts
            found[".".join(part for part in parts if part != "__init__")] = file.read_text()
    return found


def stage_of(name):
    """The stage of a dotted name within the package, or None."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[0] == "temperflow" else None


def imports(source):
    """Every dotted name that a source imports, wherever it does, with the line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
