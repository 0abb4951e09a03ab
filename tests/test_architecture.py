"""The map in CONTRIBUTING.md, held against every import statement of the code, wherever in a file it stands."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "zoo": {"zoo"},
    "diversity": {"diversity", "zoo"},
    "ensembles": {"ensembles", "diversity", "zoo"},
    "probes": {"probes", "zoo"},
    "app": {"app", "ensembles", "diversity", "probes", "zoo"},
}
LONGEST = 400
MOST_IN_ENSEMBLES = 15


@cache
def modules() -> dict[str, Path]:
    """Every module of the four packages by its dotted name; a package is its `__init__`."""
    found = {}
    for room in ("zoo", "diversity", "ensembles", "probes"):
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def statements(tree: ast.AST, for_types: bool) -> Iterator[ast.AST]:
    """Imports and calls of `import_module` anywhere in a tree, under `if TYPE_CHECKING` only where asked for."""
    todo = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            todo += [*node.body * for_types, *node.orelse]
            continue
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__":
            continue  # of a package, whose table of lazy names repeats what it imports under TYPE_CHECKING
        called = getattr(node, "func", None)
        if isinstance(node, ast.Import | ast.ImportFrom) or "import_module" in (
            getattr(called, "id", None), getattr(called, "attr", None)
        ):  # fmt: skip
            yield node
        todo += ast.iter_child_nodes(node)


@cache
def imports(name: str, for_types: bool = False) -> frozenset[str]:
    """The modules of ours that a module imports, in functions too; of `f"zoo.cards.sources.{x}"` all that fit."""
    every = modules()
    found: set[str] = set()
    for statement in statements(ast.parse(every[name].read_text()), for_types):
        if isinstance(statement, ast.Import):
            found |= {alias.name for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            around = name.split(".") if is_package(name) else name.split(".")[:-1]  # of which `.x` is a part
            base = around[: len(around) + 1 - statement.level] if statement.level else []
            source = ".".join([*base, *filter(None, [statement.module])])
            for alias in statement.names:
                inner = f"{source}.{alias.name}"
                found.add(inner if inner in every else source)
        elif isinstance(statement, ast.Call):
            wanted = statement.args[0]
            if isinstance(wanted, ast.Constant):
                found.add(str(wanted.value))
            elif isinstance(wanted, ast.JoinedStr) and isinstance(wanted.values[0], ast.Constant):
                start = str(wanted.values[0].value)
                found |= {other for other in every if other.startswith(start) and "." not in other.removeprefix(start)}
    return frozenset((found & every.keys()) - {name})


def is_package(name: str) -> bool:
    """Whether a module is the `__init__` of a package."""
    return modules()[name].name == "__init__.py"


def room(name: str) -> str:
    return "app" if name.startswith("zoo.app") else name.partition(".")[0]


def cycles() -> list[set[str]]:
    """The sets of modules that import each other in a circle: the strongly connected components, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[set[str]] = []

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
            component = set(stack[place:])
            del stack[place:]
            if len(component) > 1:
                found.append(component)

    for name in modules():
        if name not in number:
            visit(name)
    return found


def circle(component: set[str]) -> str:
    """The shortest way round from the first module of a component, for the message."""
    start = min(component)
    ways = [[start]]
    for way in ways:
        for other in sorted(imports(way[-1]) & component):
            if other == start:
                return " -> ".join([*way, start])
            if all(other not in known for known in ways):
                ways.append([*way, other])
    raise AssertionError(component)


def test_the_reader_of_imports_sees_all_of_them() -> None:
    assert "zoo.models.weights" in imports("zoo.models.sources.timm")  # from zoo import weights
    assert "zoo.errors" in imports("zoo.app.main")  # inside a function
    assert "zoo.models.model" not in imports("zoo.models.registry")  # for types only
    assert "zoo.models.model" in imports("zoo.models.registry", for_types=True)
    assert {"ensembles", "diversity", "probes"} <= {room(other) for name in modules() for other in imports(name)}


def test_rooms_import_only_what_the_map_allows() -> None:
    wrong = {
        (name, other)
        for name in modules()
        for other in imports(name)
        if room(other) not in MAY_IMPORT[room(name)] and name != "zoo.__main__"
    }
    assert wrong == set()


def test_no_import_cycles() -> None:
    assert [circle(component) for component in cycles()] == []


def test_every_module_is_reached_from_what_users_call() -> None:
    todo = ["zoo", "zoo.__main__", "zoo.app.main", "diversity", "ensembles", "probes"]
    reached: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            parents = [name.rsplit(".", depth)[0] for depth in range(1, name.count(".") + 1)]
            todo += [*imports(name, for_types=is_package(name)), *parents]
    assert modules().keys() - reached == set()


def test_a_module_holds_one_idea() -> None:
    assert {name: lines for name, path in modules().items() if (lines := len(path.read_text().splitlines())) > LONGEST} == {}


def test_ensembles_is_a_room_one_can_see() -> None:
    assert len([name for name in modules() if room(name) == "ensembles"]) <= MOST_IN_ENSEMBLES
