"""The rules of the house that a program can check: sizes, cycles, docstrings, forbidden imports and calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("planner", "backends", "console")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
ALL_FILES = FILES + sorted(
    path for folder in ("tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)
MAX_FILE, MAX_TEST_FILE, MAX_FUNCTION, MAX_CLASS, MAX_FOLDER = 500, 800, 80, 300, 24

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports_of(path: Path) -> Iterator[str]:
    """Every module a file names in an import, lazy and TYPE_CHECKING ones included."""
    module = name_of(path)
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, base] if base else parent)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", ALL_FILES, ids=ids)
def test_no_file_function_or_class_is_too_large(path: Path) -> None:
    test = not path.is_relative_to(ROOT / "planner") and path not in FILES
    lines = path.read_text(encoding="utf-8").count("\n") + 1
    assert lines <= (MAX_TEST_FILE if test else MAX_FILE), f"{ids(path)} has {lines} lines"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function) and node.end_lineno is not None:
            size = node.end_lineno - node.lineno + 1
            assert size < MAX_FUNCTION, f"{ids(path)}:{node.lineno} {node.name} has {size} lines"
        if isinstance(node, ast.ClassDef) and node.end_lineno is not None and not test:
            size = node.end_lineno - node.lineno + 1
            assert size <= MAX_CLASS, f"{ids(path)}:{node.lineno} {node.name} has {size} lines"


def test_the_median_room_is_small() -> None:
    sizes = sorted(
        path.read_text(encoding="utf-8").count("\n") + 1 for path in FILES if path.name != "__init__.py"
    )
    assert sizes[len(sizes) // 2] <= 160


def test_no_folder_is_crowded() -> None:
    for folder in {path.parent for path in FILES}:
        count = len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
        assert count <= MAX_FOLDER, f"{folder.relative_to(ROOT)} holds {count} modules"


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_everything_public_has_a_docstring(path: Path) -> None:
    tree = tree_of(path)
    assert ast.get_docstring(tree), f"{ids(path)} has no module docstring"
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{ids(path)}:{node.lineno} {node.name} has no docstring"
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, Function) and not inner.name.startswith("_"):
                    assert ast.get_docstring(inner), f"{ids(path)}:{inner.lineno} {node.name}.{inner.name}"


def test_there_are_no_import_cycles() -> None:
    modules = {name_of(path): path for path in FILES}
    graph = {
        module: {found for found in imports_of(path) if found in modules and found != module}
        for module, path in modules.items()
    }
    # A module of a package imports the package's __init__ implicitly; our __init__ files import nothing eagerly.
    state: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> None:
        state[module] = 1
        stack.append(module)
        for other in sorted(graph[module]):
            if state.get(other) == 1:
                raise AssertionError("import cycle: " + " → ".join([*stack[stack.index(other) :], other]))
            if other not in state:
                visit(other)
        stack.pop()
        state[module] = 2

    for module in sorted(graph):
        if module not in state:
            visit(module)
    assert len(state) == len(modules)


CONFINED = {
    "textual": ("console.tui",),
    "rich": ("console.tui",),
    "asyncssh": ("backends.nodes", "backends.practice"),
    "boto3": ("backends.clouds.aws",),
    "botocore": ("backends.clouds.aws",),
    "google": ("backends.clouds.gcp",),
    "azure": ("backends.clouds.azure",),
    "pynvml": ("backends.gpu",),
    "sqlite3": ("backends.ledger", "backends.clouds"),
    "obstore": ("backends.store.objects",),
    "xxhash": ("backends.store.format.pagehash",),
    "zstandard": ("backends.store.format.codec",),
    "cryptography": ("backends.store.sealing", "backends.store", "backends.nodes", "backends.practice", "backends.clouds.gcp.tokens"),
    "numpy": ("planner", "backends.practice.examples"),
    "subprocess": (
        "backends.nodes", "backends.engines", "backends.guard", "backends.schedulers", "backends.clouds",
        "backends.practice", "console.operations.hooks", "console.tui.shell", "console.poller.process",
    ),
    "socket": (
        "backends.nodes", "backends.engines", "backends.guard", "backends.schedulers", "backends.clouds",
        "backends.practice", "console.operations.hooks",
    ),
    "time": ("backends.clock",),
}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_outside_things_stay_in_their_rooms(path: Path) -> None:
    module = name_of(path)
    for name in imports_of(path):
        rooms = CONFINED.get(name.split(".")[0])
        if rooms is not None:
            assert any(module == room or module.startswith(room + ".") for room in rooms), (
                f"{module} imports {name}"
            )


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_no_shell_no_print_no_wall_clock(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.Call):
            continue
        text = ast.unparse(node.func)
        assert text not in ("os.system", "os.popen", "eval", "exec"), (
            f"{ids(path)}:{node.lineno} calls {text}"
        )
        assert not text.endswith(("datetime.now", "datetime.utcnow", "date.today")), (
            f"{ids(path)}:{node.lineno} {text}"
        )
        for keyword in node.keywords:
            shell = keyword.arg == "shell" and not (
                isinstance(keyword.value, ast.Constant) and not keyword.value.value
            )
            assert not shell, f"{ids(path)}:{node.lineno} runs a shell"


@pytest.mark.parametrize("path", ALL_FILES, ids=ids)
def test_every_exception_to_a_rule_says_why(path: Path) -> None:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = re.search(r"#\s*(?:noqa(?::\s*[A-Z0-9, ]+)?|type:\s*ignore(?:\[[a-z-, ]+\])?)\s*(.*)$", line)
        if match and "re.search" not in line:
            assert len(match.group(1).strip()) > 8, f"{ids(path)}:{number}: an exception without a reason"


def test_no_file_names_a_package_index_or_mirror() -> None:
    hosts = re.compile(
        r"(pypi|pythonhosted|registry\.npmjs|deb\.debian|ftp\.\w+\.debian|files\.python"
        r")\.(org|com|net)",
        re.IGNORECASE,
    )
    for path in ROOT.rglob("*"):
        skipped = {".venv", ".git", "__pycache__", ".hypothesis"} & set(path.parts)
        if (
            path.is_file()
            and not skipped
            and path.suffix in {".py", ".txt", ".in", ".md", ".toml", ".cfg", "", ".sh", ".json"}
        ):
            named = hosts.search(path.read_text(encoding="utf-8", errors="replace")) is not None
            assert not named or path == Path(__file__), f"{ids(path)} names a package host"


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=ids)
def test_every_test_can_fail(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function) and node.name.startswith("test"):
            text = ast.unparse(node)
            checks = ("assert", "raises", "check", "snap", "expect", "suite", "fail(")
            assert any(word in text for word in checks), (
                f"{ids(path)}:{node.lineno} {node.name} asserts nothing"
            )
