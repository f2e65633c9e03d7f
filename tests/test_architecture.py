"""The house rules that no single module can break unseen: who imports whom."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np
import pytest

import coverlock_sdk
from coverlock_sdk import load_hash
from tests.toy_bundle import write_toy_bundle

ROOT = Path(__file__).parents[1]
SDK = "coverlock_sdk"
ROOMS = (
    *("arrays", "errors", "files", "documents", "threads", "progress", "addresses"),
    *("frames", "calibration", "contract", "hookspecs"),
    *("images", "models", "plugin_manager", "plugin_calls", "loading", "hashing"),
    "locking",
    *("bundles", "verifier", "embedder", "scaling"),
    "cli",
    *("testing", "builtin_plugin", "__main__"),
)
"""Packages and modules of the SDK, each of which imports only from those before it."""

BUILT_ON_IT = (
    *("coverlock_bench", "coverlock_export", "coverlock_plugins"),
    *("coverlock_training", "coverlock_web", "experiments"),
)
MUST_NOT = (*BUILT_ON_IT, "torch", "onnx.")
HEAVY = ("torch", "onnxruntime", "numpy", "PIL", "pluggy", "click", "safetensors")

PLUGIN_ROOMS = {*ROOMS[: ROOMS.index("locking")], "cli.options"}
"""What watermarks and hashes may use besides the names that ``coverlock_sdk`` exports."""

USES_ALL_ROOMS = ("service", "ray_cluster", "content_credentials", "mhdw", "convnext")
"""Plugins that are more than a watermark or a hash; they are released with the SDK."""

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


def prefixes(name: str) -> list[str]:
    """The packages around a module or a name, without the SDK itself."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(2, len(parts))]


def own_imports(file: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the SDK that a module imports, which imports nothing that is built on it."""
    ours = {name for name in imports(file) if name.startswith(("coverlock_", "experiments"))}
    own = {name for name in ours if name.split(".")[0] == SDK}
    assert own == ours, file
    return {name if name in known else name.rpartition(".")[0] for name in own} & known.keys()


def test_there_is_no_import_cycle():
    known = modules()
    graph = {name: own_imports(file, known) - {name} for name, file in known.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_rooms_import_in_one_direction():
    known = modules()
    assert {name.split(".")[1] for name in known if "." in name} == set(ROOMS)
    wrong = [
        f"{name} imports {other}"
        for name, file in known.items()
        if name != SDK
        for other in own_imports(file, known) - {SDK}
        if ROOMS.index(name.split(".")[1]) < ROOMS.index(other.split(".")[1])
    ]
    assert wrong == []


def test_watermarks_and_hashes_keep_out_of_the_later_rooms():
    plugins = ROOT / "plugins" / "coverlock_plugins"
    public = {SDK, *(f"{SDK}.{name}" for name in coverlock_sdk.__all__)}
    doors = public | {f"{SDK}.{room}" for room in PLUGIN_ROOMS}
    wrong = [
        f"{file.relative_to(plugins)} imports {name}"
        for file in sorted(plugins.rglob("*.py"))
        if file.relative_to(plugins).parts[0] not in USES_ALL_ROOMS
        for name in imports(file)
        if name.startswith(SDK) and not {name, *prefixes(name)} & doors
    ]
    assert wrong == []


def test_marking_and_verifying_import_neither_torch_nor_what_is_built_on_the_sdk(tmp_path, photos):
    write_toy_bundle(tmp_path / "bundle", image_hash=load_hash(), embedding=True)
    np.save(tmp_path / "photo.npy", photos[0])
    program = (
        "import sys\n"
        "import numpy\n"
        "from coverlock_sdk import Embedder, Verifier\n"
        "marked = Embedder.open('bundle').embed(numpy.load('photo.npy'), 'someone')\n"
        "verdict = Verifier.open('bundle', 'cpu').verify(marked, 'someone')\n"
        f"print(verdict.accepted, *[m for m in sys.modules if m.startswith({MUST_NOT!r})])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["True"], done.stderr


def printed(program: str) -> str:
    """What a Python program prints in a process of its own."""
    return subprocess.check_output([sys.executable, "-c", program], text=True).strip()


def test_asking_for_the_version_is_quick():
    """Processor time of the best of three: a busy machine proves nothing."""
    program = (
        "import os, sys\n"
        "from coverlock_sdk.cli import main\n"
        "sys.argv[1:] = ['--version']\n"
        "try: main()\n"
        "finally: print(sum(os.times()[:2]))\n"
    )
    assert min(float(printed(program).split()[-1]) for _ in range(3)) < 0.3


def test_importing_changes_neither_the_path_nor_the_environment():
    program = (
        "import os, sys\n"
        "before = list(sys.path), dict(os.environ)\n"
        "from coverlock_sdk import Verifier, load_watermark, wrap\n"
        "load_watermark('hidden')\n"
        "print((list(sys.path), dict(os.environ)) == before)\n"
    )
    assert printed(program) == "True"


def test_importing_the_sdk_imports_nothing_heavy():
    code = f"import sys, coverlock_sdk; print(*[m for m in {HEAVY} if m in sys.modules])"
    assert printed(code) == ""


def test_the_command_line_works_where_only_the_base_is_installed():
    """No plugin of ours is skipped, and no command is lost, for want of an optional package."""
    program = (
        "import sys\n"
        f"for name in {OPTIONAL_PACKAGES!r}: sys.modules[name] = None\n"
        "from coverlock_sdk.cli import build_cli\n"
        "from coverlock_sdk.plugin_manager import plugin_manager\n"
        "cli = build_cli()\n"
        "cli.list_commands(None)\n"
        "print({p.name: p.failure for p in plugin_manager().plugins if p.failure})\n"
    )
    assert printed(program) == "{}"
