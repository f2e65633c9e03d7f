"""The house rules that no single module can break unseen: who imports whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SDK = "coverlock_sdk"
HEAVY = ("torch", "onnxruntime", "numpy", "PIL", "pluggy", "click", "safetensors")

OPTIONAL_PACKAGES = (
    *("torch", "onnx", "onnxruntime", "matplotlib", "scipy", "skimage", "fastapi"),
    *("c2pa", "cryptography"),
)


def modules() -> dict[str, Path]:
    """The modules of the SDK by their dotted names."""
    found = {}
    for file in sorted((ROOT / SDK).rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(file: Path) -> set[str]:
    """What a module imports when it runs, wherever the statement stands: modules or names in them.

    Imports for type checkers alone do not count.
    """
    names: set[str] = set()
    for node in running(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import in line {node.lineno}"
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below ``node`` except what is under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from running(child)


def own_imports(file: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the SDK that a module imports."""
    own = {name for name in imports(file) if name.split(".")[0] == SDK}
    return {name if name in known else name.rpartition(".")[0] for name in own} & known.keys()


def test_there_is_no_import_cycle():
    known = modules()
    graph = {name: own_imports(file, known) - {name} for name, file in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_the_sdk_knows_nothing_of_what_is_built_on_it():
    foreign = {
        name: found
        for name, file in modules().items()
        if (
            found := {
                i for i in imports(file) if i.startswith("coverlock_") and i.split(".")[0] != SDK
            }
        )
    }
    assert foreign == {}


def test_importing_the_sdk_imports_nothing_heavy():
    code = f"import sys, coverlock_sdk; print(*[m for m in {HEAVY} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == []


def test_the_command_line_works_where_only_the_base_is_installed():
    """No plugin of ours is skipped, and no command is lost, for want of an optional package."""
    program = (
        "import sys\n"
        f"for name in {OPTIONAL_PACKAGES!r}: sys.modules[name] = None\n"
        "from coverlock_sdk.cli import build_cli\n"
        "from coverlock_sdk.plugin_manager import plugin_manager\n"
        "build_cli()\n"
        "print({p.name: p.failure for p in plugin_manager().plugins if p.failure})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "{}", done.stderr
