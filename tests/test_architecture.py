"""Check all import statements, also those inside functions, against the layers of CONTRIBUTING.md."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("zoo", "diversity", "ensembles", "probes")
# The packages and the folders of `zoo`, from the bottom layer up: each imports only from layers listed before it.
LAYERS = (
    "zoo.errors", "zoo.core", "zoo.cards", "zoo.datasets", "zoo.objectives", "zoo.networks", "zoo.models", "zoo.outputs",
    "zoo.runs", "zoo.calibration", "zoo.training", "diversity", "probes", "ensembles", "zoo.app",
)  # fmt: skip
# Entry points that connect all layers.
ENTRY_POINTS = ("zoo", "zoo.__main__")


@cache
def modules() -> dict[str, Path]:
    """Return the path of every module of the four packages by its dotted name; for a package, its `__init__`."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def import_statements(tree: ast.AST, for_types: bool) -> Iterator[ast.AST]:
    """Yield all imports and `import_module` calls in a tree; those under `TYPE_CHECKING` only with `for_types`."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            todo += [*node.body * for_types, *node.orelse]
            continue
        called = getattr(node, "func", None)
        if isinstance(node, ast.Import | ast.ImportFrom) or "import_module" in (
            getattr(called, "id", None), getattr(called, "attr", None)
        ):  # fmt: skip
            yield node
        todo += ast.iter_child_nodes(node)


@cache
def imports(name: str, for_types: bool = False) -> frozenset[str]:
    """Return the modules of the four packages that a module imports, also inside functions.

    A call `import_module(f"zoo.x.{y}")` counts as an import of every module that matches.
    """
    every = modules()
    found: set[str] = set()
    for statement in import_statements(ast.parse(every[name].read_text()), for_types):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            assert statement.level == 0, f"{name}: relative import"
            for alias in statement.names:
                inner = f"{statement.module}.{alias.name}"
                found.add(inner if inner in every else str(statement.module))
        elif isinstance(statement, ast.Call):
            wanted = statement.args[0]
            if isinstance(wanted, ast.Constant):
                found.add(str(wanted.value))
            elif isinstance(wanted, ast.JoinedStr) and isinstance(wanted.values[0], ast.Constant):
                start = str(wanted.values[0].value)
                found |= {other for other in every if other.startswith(start) and "." not in other.removeprefix(start)}
    return frozenset((found & every.keys()) - {name})


def layer(name: str) -> str:
    return ".".join(name.split(".")[: 2 if name.startswith("zoo.") else 1])


def cycles() -> list[list[str]]:
    """Return import cycles: the strongly connected components of the import graph, found by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in sorted(imports(name)):
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            place = stack.index(name)
            component = stack[place:]
            del stack[place:]
            if len(component) > 1:
                found.append(sorted(component))

    for name in modules():
        if name not in number:
            visit(name)
    return found


def test_all_kinds_of_imports_are_found() -> None:
    assert "zoo.models.weights" in imports("zoo.models.sources.timm")
    assert "zoo.core.text" in imports("zoo.app.main")  # inside a function
    assert "zoo.models.model" not in imports("zoo.models.registry")  # under TYPE_CHECKING
    assert "zoo.models.model" in imports("zoo.models.registry", for_types=True)
    assert "zoo.models.sources.onnx" in imports("zoo.models.sources")  # by import_module


def test_layers_cover_all_modules() -> None:
    assert {layer(name) for name in modules()} - set(ENTRY_POINTS) == set(LAYERS)


def test_each_layer_imports_only_layers_below_it() -> None:
    wrong = [
        f"{name} imports {other}"
        for name in modules()
        for other in imports(name)
        if name not in ENTRY_POINTS and other != "zoo" and LAYERS.index(layer(other)) > LAYERS.index(layer(name))
    ]
    assert wrong == []


def test_probes_and_diversity_are_independent() -> None:
    pairs = {(layer(name), layer(other)) for name in modules() for other in imports(name)}
    assert not pairs & {("probes", "diversity"), ("diversity", "probes"), ("ensembles", "probes")}


def test_only_the_application_imports_the_top_package() -> None:
    """`import zoo` gives lazy access to every layer, so in a lower layer it could hide an import from a higher one."""
    assert {layer(name) for name in modules() if "zoo" in imports(name)} <= {"zoo.app", *ENTRY_POINTS}


def test_private_modules_stay_inside_their_package() -> None:
    def private(name: str) -> bool:
        return any(part.startswith("_") and part != "__main__" for part in name.split("."))

    edges = {(name, other) for name in modules() for other in imports(name) if private(other)}
    assert {(name, other) for name, other in edges if layer(name) != layer(other)} == set()


def test_no_import_cycles() -> None:
    assert cycles() == []


def test_no_module_is_unused() -> None:
    todo = ["zoo", "zoo.__main__", "zoo.app.main", "diversity", "ensembles", "probes"]
    reached: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            parents = [name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)]
            todo += [*imports(name, for_types=modules()[name].name == "__init__.py"), *parents]
    assert modules().keys() - reached == set()


def test_contributing_lists_the_layers_in_order() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (stack,) = re.findall(r"<!-- layers -->\n```\n(.*?)```", text, re.DOTALL)
    shown = [line.split()[0] for line in stack.splitlines() if line and not line.startswith(" ")]
    assert shown[::-1] == [name for name in LAYERS if name != "zoo.errors"]
