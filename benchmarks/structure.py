"""Structure of the source in figures: rooms, floors, circles, size, and the way of one argument.

python -m benchmarks.structure                                     # sizes, rooms, floors, circles
python -m benchmarks.structure walk commands/fit.py:run:given      # follows one argument
python -m benchmarks.structure equal                               # equal constants and functions
python -m benchmarks.structure tasks                               # what each task costs
python -m benchmarks.structure --source OTHER/src                  # of another checkout

- *Rooms* are the folders and files directly under ``src/tfzoo``; *floors* the rooms on the longest
  chain of imports between them. Imports within functions count, those for type checkers do not.
- *Circles* are files of which each imports each, directly or through others; imports within
  functions and for type checkers count, too: who reads one file has to read the other.
- *Statements* are ``ast.stmt`` without docstrings.
- The way of an argument: each call that passes it on, or something read from it or made of it, is
  entered, in the order of the code and in all branches. *Stays* are the files entered one after
  another, *climbs* the stays on a higher floor than the one before, *names* those of all variables
  and attributes that hold it. A method is entered where its class is written down: in an
  annotation, or in the call that made the object. What a function calls that was entered before
  with the same argument is not counted again.
- What a *task* costs are the statements of its file, and of files that nothing imports but these:
  what would be dead without it. Indexes of names, ``__init__.py``, do not count as users. Shared is
  what the files of two tasks or more import of data, learning and plots, or these of one another.
- Functions are equal that differ in docstrings, annotations and names of arguments and local
  variables alone, constants those with a name in capitals and the same value; numbers and empty
  collections have to have the same name, too.
"""

from __future__ import annotations

import argparse
import ast
import copy
import itertools
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ASKED = ast.Compare | ast.stmt | ast.Not | ast.JoinedStr
"""What is asked or told of a value is not the value."""
FORMS = (
    *("dict", "list", "tuple", "set", "sorted", "reversed", "enumerate", "zip", "iter", "next"),
    *("str", "int", "float", "Path", "vars", "getattr", "cast", "copy.copy", "copy.deepcopy"),
)
"""Calls from elsewhere whose result is what they were given, in another form."""
NUMBER = re.compile(r"[-\d.e* ]+$|\{\}$|\[\]$")
"""A number, such as ``2 ** 20``, or a collection that is empty at first."""
SMALL = 12
"""Nodes of a syntax tree; functions of fewer are too short to be worth a name in common."""
Graph = Mapping[str, set[str]]
Function = tuple[str, str]
"""A file, and a name in it: ``Class.method``, ``function``."""


class Source:
    """All files of a package, parsed; each is named by its path inside."""

    def __init__(self, folder: Path) -> None:
        self.trees = {
            path.relative_to(folder).as_posix(): ast.parse(path.read_text("utf-8"))
            for path in sorted(folder.rglob("*.py"))
        }
        self.package = folder.name

    @cached_property
    def definitions(self) -> dict[Function, ast.AST]:
        """Functions, methods and classes, but for those within functions."""
        found: dict[Function, ast.AST] = {}
        for file, tree in self.trees.items():
            for node in tree.body:
                if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                    found[file, node.name] = node
                    inner = node.body if isinstance(node, ast.ClassDef) else []
                    for method in inner:
                        if isinstance(method, FUNCTIONS):
                            found[file, f"{node.name}.{method.name}"] = method
        return found

    def file(self, module: str) -> str | None:
        """``tfzoo.models.stack`` -> ``blocks/stack.py``."""
        package, _, rest = module.partition(".")
        inside = rest.replace(".", "/")
        places = (f"{inside}.py", f"{inside}/__init__.py".lstrip("/"))
        return next((one for one in places if package == self.package and one in self.trees), None)

    def imports(self, file: str, typing: bool = False) -> Iterator[tuple[str, str, str]]:
        """The name that each import binds, the file of this package that it is taken from, and what
        is taken ("" for the file itself).
        """
        skipped = {
            id(inner)
            for node in ast.walk(self.trees[file])
            if isinstance(node, ast.If) and is_typing(node)
            for inner in ast.walk(node)
            if not typing
        }
        for node in ast.walk(self.trees[file]):
            if id(node) in skipped or not isinstance(node, ast.Import | ast.ImportFrom):
                continue
            for alias in node.names:
                if isinstance(node, ast.Import):
                    other, taken = self.file(alias.name), ""
                else:
                    submodule = self.file(f"{node.module}.{alias.name}")
                    other = submodule or self.file(node.module or "")
                    taken = "" if submodule else alias.name
                if other is not None:
                    yield alias.asname or alias.name, other, taken

    def files(self) -> dict[str, set[str]]:
        """The files that each imports, also for type checkers."""
        return {
            file: {other for _, other, _ in self.imports(file, typing=True)} - {file}
            for file in self.trees
        }

    def rooms(self) -> dict[str, set[str]]:
        """The rooms that each imports when it runs."""
        graph: dict[str, set[str]] = defaultdict(set)
        for file in self.trees:
            graph[room(file)] |= {room(other) for _, other, _ in self.imports(file)}
        return {name: used - {name} for name, used in graph.items()}


def is_typing(branch: ast.If) -> bool:
    """Whether a branch is for type checkers alone."""
    return isinstance(branch.test, ast.Name) and branch.test.id == "TYPE_CHECKING"


def room(file: str) -> str:
    return file.split("/")[0].removesuffix(".py")


def below(graph: Graph, name: str) -> set[str]:
    """All that one imports, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for other in graph.get(waiting.pop(), set()) - found:
            found.add(other)
            waiting.append(other)
    return found


def circles(graph: Graph) -> list[list[str]]:
    """Groups of names of which each imports each, directly or through others."""
    reach = {name: below(graph, name) for name in graph}
    groups = {
        tuple(sorted(other for other in reach[name] if name in reach.get(other, ())))
        for name in graph
        if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


def floors(graph: Graph) -> dict[str, int]:
    """The names on the longest way down from each; those of a circle lie on one floor."""
    reach = {name: below(graph, name) for name in graph}
    level = dict.fromkeys(graph, 1)
    for _ in graph:
        for name, used in graph.items():
            for other in used & graph.keys():
                if name not in reach[other]:
                    level[name] = max(level[name], level[other] + 1)
    return level


class Walk:
    """The way of one argument through the calls that pass it on."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.level = floors(source.rooms())
        self.route: list[Function] = []
        self.names: set[str] = set()
        self.kept: dict[Function, set[str]] = defaultdict(set)
        self.returned: dict[tuple[Function, frozenset[str]], bool] = {}
        self.known = {
            file: {name: (other, taken) for name, other, taken in source.imports(file)}
            for file in source.trees
        }

    def enter(self, function: Function, held: set[str]) -> bool:
        """Follow the arguments named ``held``. Returns whether what it returns holds them."""
        self.route.append(function)
        key = function, frozenset(held)
        if key not in self.returned:
            self.returned[key] = False
            inside = Inside(self, function, held)
            inside.run(self.source.definitions[function])
            self.returned[key] = inside.returns
            self.names |= inside.held - {"self", "cls"}
        return self.returned[key]

    def named(self, file: str, node: ast.AST) -> Function | None:
        """The function or class of this package that an expression names."""
        if isinstance(node, ast.Name):
            other, taken = self.known[file].get(node.id, (file, node.id))
            found = other, taken or node.id
        elif isinstance(node, ast.Attribute):
            owner = node.value
            module = self.known[file].get(owner.id) if isinstance(owner, ast.Name) else None
            if module is not None and not module[1]:
                found = module[0], node.attr
            else:
                cls = self.named(file, owner)
                return self.method(cls, node.attr) if cls is not None else None
        else:
            return None
        return found if found in self.source.definitions else None

    def method(self, cls: Function, name: str) -> Function | None:
        """A method of a class, or of the nearest class that it inherits from."""
        file, own = cls
        if (file, f"{own}.{name}") in self.source.definitions:
            return file, f"{own}.{name}"
        node = self.source.definitions.get(cls)
        for base in node.bases if isinstance(node, ast.ClassDef) else []:
            parent = self.named(file, base)
            found = self.method(parent, name) if parent is not None else None
            if found is not None:
                return found
        return None

    def files(self) -> list[str]:
        """The files entered, one after another."""
        files = [file for file, _ in self.route]
        return [one for one, before in zip(files, [None, *files], strict=False) if one != before]

    def climbs(self) -> int:
        floor = [self.level.get(room(file), 0) for file in self.files()]
        return sum(after > before for before, after in itertools.pairwise(floor))


class Inside:
    """One function on the way: which of its variables hold the argument."""

    def __init__(self, walk: Walk, function: Function, held: set[str]) -> None:
        self.walk, self.file, self.held = walk, function[0], {*held}
        cls, _, method = function[1].rpartition(".")
        self.cls = (self.file, cls) if method and cls else None
        self.classes: dict[str, Function] = {} if self.cls is None else {"self": self.cls}
        self.returns = False

    def run(self, function: ast.AST) -> None:
        if isinstance(function, FUNCTIONS):
            arguments = function.args
            for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                cls = one.annotation and self.walk.named(self.file, one.annotation)
                if cls:
                    self.classes[one.arg] = cls
            for statement in function.body:
                self.read(statement)

    def read(self, node: ast.AST | None) -> bool:
        """Follow everything below a node, in order. Returns whether its value holds the argument;
        what is asked of it (a comparison, ``not``) does not.
        """
        if isinstance(node, ast.Name):
            return node.id in self.held
        if isinstance(node, ast.Attribute) and self.own(node):
            return "self" in self.held or f"self.{node.attr}" in self.attributes()
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign):
            return self.assign(targets_of(node), node.value)
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            self.assign([node.target], node.iter)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self.assign([node.optional_vars], node.context_expr)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            for one in node.generators:  # they stand behind what they make
                self.read(one)
            return self.read(node.value if isinstance(node, ast.DictComp) else node.elt)
        fields = [(name, child) for name, child in ast.iter_fields(node)] if node else []
        holds = [
            self.read(child) and name not in ("test", "slice")
            for name, below in fields
            for child in (below if isinstance(below, list) else [below])
            if isinstance(child, ast.AST)
        ]
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            self.returns |= any(holds)
        return any(holds) and not isinstance(node, ASKED)

    def own(self, node: ast.AST) -> bool:
        is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        return is_attribute and ast.unparse(node).startswith("self.") and self.cls is not None

    def attributes(self) -> set[str]:
        return self.walk.kept[self.cls] if self.cls is not None else set()

    def assign(self, targets: list[ast.expr], value: ast.expr | None) -> bool:
        holds = self.read(value)
        cls = self.walk.named(self.file, value.func) if isinstance(value, ast.Call) else None
        for target in targets:
            if isinstance(target, ast.Name) and cls is not None:
                self.classes[target.id] = cls
            if not holds:
                continue
            if self.own(target):
                self.attributes().add(ast.unparse(target))
                self.walk.names.add(ast.unparse(target))
            else:
                held = target.value if isinstance(target, ast.Subscript) else target
                parts = held.elts if isinstance(held, ast.Tuple) else [held]
                self.held |= {one.id for one in parts if isinstance(one, ast.Name)}
        return holds

    def call(self, node: ast.Call) -> bool:
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        on_it = self.read(receiver)
        values = [self.read(one) for one in node.args]
        named = [(one.arg, self.read(one.value)) for one in node.keywords]
        passed = any(values) or any(holds for _, holds in named)
        function = self.callee(node.func)
        if function is None:
            return on_it or (passed and ast.unparse(node.func) in FORMS)
        made = self.walk.source.definitions[function]
        if isinstance(made, ast.ClassDef):
            init = self.walk.method(function, "__init__")
            if init is None:
                return passed
            self.walk.kept[function] |= set()
            if passed:
                self.walk.enter(init, self.bound(init, values, named))
            return passed
        cls = (function[0], function[1].rpartition(".")[0])
        if passed or (on_it and "." in function[1]) or self.walk.kept.get(cls):
            held = self.bound(function, values, named)
            return self.walk.enter(function, held | ({"self"} if on_it else set()))
        return False

    def callee(self, node: ast.expr) -> Function | None:
        """The function that a call enters: of a module, of a class that is known, or a method of
        which there is one.
        """
        found = self.walk.named(self.file, node)
        if found is not None or not isinstance(node, ast.Attribute):
            return found
        owner = self.classes.get(node.value.id) if isinstance(node.value, ast.Name) else None
        return self.walk.method(owner, node.attr) if owner is not None else None

    def bound(
        self, function: Function, values: list[bool], named: list[tuple[str | None, bool]]
    ) -> set[str]:
        """The parameters that get what holds the argument."""
        made = self.walk.source.definitions[function]
        if not isinstance(made, FUNCTIONS):
            return set()
        names = [one.arg for one in (*made.args.posonlyargs, *made.args.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        rest = [made.args.vararg.arg] * len(values) if made.args.vararg else []
        held = {name for name, holds in zip([*names, *rest], values, strict=False) if holds}
        others = {*names, *(one.arg for one in made.args.kwonlyargs)}
        collector = made.args.kwarg.arg if made.args.kwarg else ""
        held |= {(name if name in others else collector) for name, holds in named if holds and name}
        return held - {""}


def targets_of(node: ast.Assign | ast.AnnAssign | ast.NamedExpr | ast.AugAssign) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def own_text(node: ast.stmt) -> bool:
    """Whether a statement is a docstring."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def sizes(source: Source, files: Collection[str] = ()) -> dict[str, int]:
    """Files, functions and statements, of all files or of some."""
    trees = [source.trees[file] for file in files or source.trees]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return {
        "files": len(trees),
        "functions": sum(isinstance(node, FUNCTIONS) for node in nodes),
        "statements": sum(isinstance(node, ast.stmt) and not own_text(node) for node in nodes),
    }


def alone(source: Source, file: str) -> set[str]:
    """A file, and those that nothing imports but these."""
    users: dict[str, set[str]] = defaultdict(set)
    for one, used in source.files().items():
        for other in used if not one.endswith("__init__.py") else ():
            users[other].add(one)
    found = {file}
    while more := {one for one, by in users.items() if one not in found and by <= found}:
        found |= more
    return found


def show_tasks(source: Source) -> None:
    """Print what each task costs, and what tasks share."""
    used = source.files()
    tasks = [one for one in sorted(source.trees) if one.startswith("tasks/") and "__" not in one]
    reach: dict[str, int] = defaultdict(int)
    for task in tasks:
        own = alone(source, task)
        count, more = (sizes(source, files)["statements"] for files in ([task], own))
        others = ", ".join(sorted(own - {task}))
        print(f"| {Path(task).stem} | {count} | {more - count} | {others} |")
        for file in {other for one in own for other in used[one]} - own:
            reach[file] += room(file) in ("data", "learning", "plots")
    shared = {file for file, count in reach.items() if count > 1}
    for file in sorted(shared):
        shared |= {one for one in below(used, file) if room(one) in ("data", "learning", "plots")}
    print(", ".join(f"{count:,} {name}" for name, count in sizes(source, shared).items()))


def lines(folder: Path) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in folder.rglob("*.py"))


def same(source: Source) -> list[list[str]]:
    """Places of equal constants and of equal functions."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, tree in source.trees.items():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                name, value = ast.unparse(targets_of(node)[0]), ast.unparse(node.value)
                if name.isupper() and not value.startswith("TypeVar"):
                    text = f"{name} = {value}" if value.isalnum() or NUMBER.match(value) else value
                    found[text].append(f"{file}:{name}")
    for (file, name), function in source.definitions.items():
        text = meaning(function) if isinstance(function, FUNCTIONS) else ""
        if text.count("(") >= SMALL:
            found[text].append(f"{file}:{name}")
    return [places for places in found.values() if len(places) > 1]


def meaning(function: ast.AST) -> str:
    """A function without its name, docstring and annotations, arguments and local variables
    numbered.
    """
    function = copy.deepcopy(function)
    body = getattr(function, "body", [])
    order: dict[str, str] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.annotation = None
            node.arg = order.setdefault(node.arg, str(len(order)))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            order.setdefault(node.id, str(len(order)))
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            node.id = order.get(node.id, node.id)
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    arguments = getattr(function, "args", None)
    body = [one for one in body if not own_text(one)]
    return "".join(ast.dump(one) for one in [arguments, *body] if one is not None)


def show(source: Source, root: Path) -> None:
    """Print everything that is one figure, and the rooms."""
    rooms, files = source.rooms(), circles(source.files())
    level = floors(rooms)
    for name in sorted(rooms, key=lambda name: (level[name], name)):
        used = sorted(rooms[name], key=lambda other: (-level[other], other))
        print(f"  {level[name]:>2}  {name:<18} {', '.join(used)}")
    print(f"{len(rooms)} rooms on {max(level.values())} floors")
    print(f"circles of rooms: {len(circles(rooms))}; of files: {len(files)}")
    for group in files:
        print("  " + ", ".join(group))
    print(", ".join(f"{count:,} {name}" for name, count in sizes(source).items()))
    print(f"{lines(root / 'src'):,} lines of source, {lines(root / 'tests'):,} of tests")


def show_walk(source: Source, address: str) -> None:
    """Print the way of one argument, a line for each stay."""
    file, name, argument = address.removeprefix("src/tfzoo/").split(":")
    walk = Walk(source)
    walk.enter((file, name), {argument})
    before = ""
    for file, name in walk.route:
        if file != before:
            print(f"  {walk.level.get(room(file), 0):>2}  {file:<32} {name}")
        before = file
    stays = walk.files()
    print(f"{len(stays)} stays in {len(set(stays))} files, {walk.climbs()} climbs")
    print(f"{len(walk.names)} names: {', '.join(sorted(walk.names))}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=["walk", "equal", "tasks"])
    parser.add_argument("argument", nargs="?", help="FILE:FUNCTION:ARGUMENT")
    parser.add_argument("--source", type=Path, default=HERE / "src", help="the folder of tfzoo")
    given = parser.parse_args()
    source = Source(given.source / "tfzoo")
    if given.what == "walk":
        show_walk(source, given.argument or "commands/fit.py:run:given")
    elif given.what == "equal":
        print("\n".join(", ".join(places) for places in same(source)))
    elif given.what == "tasks":
        show_tasks(source)
    else:
        show(source, given.source.parent)


if __name__ == "__main__":
    main()
