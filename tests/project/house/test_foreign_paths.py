"""Paths through another process's root: only `proc/opening.py` and `proc/opened_folder.py` follow them.

Other code that opens, lists or examines such a path has no time limit and follows the process's links to
files of this machine.  The test reads the code: it follows a path through names, joins and arguments within
one module, but not through attributes of objects or from one module to the next.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path, PurePath

import pytest

from harness.paths import ROOT

PACKAGE = ROOT / "src" / "offheap"
OPENERS = {"proc/opening.py", "proc/opened_folder.py"}
# Functions of proc/root.py that return a path through /proc/PID/root.
MAKERS = {"through", "our_path", "mapped_file", "from_cwd"}
WRITTEN = re.compile(r"/proc/[^/]+/(root|cwd).")  # the link itself, /proc/PID/root, is the kernel's
# What makes a path or a text of a path, without a look at the file system.
PURE = {"Path", "PurePosixPath", "str"}
PURE_METHODS = {
    "joinpath",
    "with_name",
    "with_suffix",
    "with_stem",
    "relative_to",
    "as_posix",
    "join",
    "fspath",
}
FILE_METHODS = set(dir(Path)) - set(dir(PurePath))
FILE_MODULES = {"os", "shutil", "io", "mmap", "glob", "tempfile"}


class PathsOfOthers:
    """The names of one module that hold a path through another process's root."""

    def __init__(self, tree: ast.Module, of_root: bool = False) -> None:
        self._tree = tree
        self._of_root = of_root  # it is proc/root.py, which calls its functions by their bare names
        self._functions = {
            node.name: node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        self._names: set[tuple[str, str]] = set()
        self._aliases = dict(_aliases(tree))
        before = -1
        while before != len(self._names):
            before = len(self._names)
            for scope, node in self._nodes():
                self._learn(scope, node)

    def uses(self) -> Iterator[str]:
        """Each use of such a path that looks at the file system."""
        for scope, node in self._nodes():
            if isinstance(node, ast.expr) and self._is_used(scope, node):
                yield f"{node.lineno}: {ast.unparse(node)}"

    def _is_used(self, scope: str, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in FILE_METHODS and self._is(scope, node.value)
        if not isinstance(node, ast.Call) or not _opens(node.func):
            return False
        return any(self._is(scope, given) for given in (*node.args, *(word.value for word in node.keywords)))

    def _nodes(self) -> Iterator[tuple[str, ast.AST]]:
        """Each node with the outermost function around it, whose names inner functions see."""
        for top in self._tree.body:
            for outer in top.body if isinstance(top, ast.ClassDef) else [top]:
                scope = outer.name if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) else ""
                yield from ((scope, node) for node in ast.walk(outer))

    def _learn(self, scope: str, node: ast.AST) -> None:
        pairs: list[tuple[ast.expr, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.For | ast.comprehension):
            pairs = [(node.target, node.iter)]
        elif isinstance(node, ast.Call):
            self._pass_on(scope, node)
        for target, value in pairs:
            if value is not None and self._is(scope, value):
                self._names |= {(scope, name.id) for name in ast.walk(target) if isinstance(name, ast.Name)}

    def _pass_on(self, scope: str, call: ast.Call) -> None:
        """Learns the parameters of a function of this module, called here or by `partial`."""
        its, given = call.func, call.args
        if isinstance(its, ast.Name) and its.id == "partial" and given:
            its, given = given[0], given[1:]
        function = self._functions.get(its.id) if isinstance(its, ast.Name) else None
        if function is None:
            return
        names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        passed = [*zip(names, given, strict=False), *((word.arg, word.value) for word in call.keywords)]
        self._names |= {(function.name, name) for name, value in passed if name and self._is(scope, value)}

    def _is(self, scope: str, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return (scope, node.id) in self._names
        if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
            return self._is(scope, node.value)
        if isinstance(node, ast.BinOp):
            return self._is(scope, node.left) or self._is(scope, node.right)
        if isinstance(node, ast.IfExp):
            return self._is(scope, node.body) or self._is(scope, node.orelse)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return any(self._is(scope, part) for part in node.elts)
        if isinstance(node, ast.JoinedStr | ast.Constant):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            return bool(WRITTEN.search(_text(node))) or any(
                isinstance(part, ast.FormattedValue) and self._is(scope, part.value) for part in parts
            )
        return isinstance(node, ast.Call) and self._is_made(scope, node)

    def _is_made(self, scope: str, call: ast.Call) -> bool:
        its = call.func
        if isinstance(its, ast.Name):
            if self._aliases.get(its.id) in MAKERS or (self._of_root and its.id in MAKERS):
                return True
            return its.id in PURE and any(self._is(scope, argument) for argument in call.args)
        if not isinstance(its, ast.Attribute):
            return False
        if isinstance(its.value, ast.Name) and self._aliases.get(its.value.id) == "":
            return its.attr in MAKERS
        return its.attr in PURE_METHODS and any(self._is(scope, part) for part in (its.value, *call.args))


def _aliases(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """The names that the module has for proc/root.py ("") and for its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "offheap.proc":
            yield from ((alias.asname or alias.name, "") for alias in node.names if alias.name == "root")
        elif isinstance(node, ast.ImportFrom) and node.module == "offheap.proc.root":
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)


def _opens(its: ast.expr) -> bool:
    if isinstance(its, ast.Name):
        return its.id == "open"
    if not isinstance(its, ast.Attribute):
        return False
    module = ast.unparse(its).partition(".")[0]
    return module in FILE_MODULES and its.attr not in PURE_METHODS


def _text(node: ast.JoinedStr | ast.Constant) -> str:
    """The text of a string; one character, `?`, in the place of each value."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(_text(part) if isinstance(part, ast.Constant) else "?" for part in node.values)


def uses(code: str, of_root: bool = False) -> list[str]:
    return list(PathsOfOthers(ast.parse(code), of_root).uses())


def test_only_the_openers_follow_paths_of_other_processes() -> None:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name not in OPENERS and (its := uses(path.read_text(), name == "proc/root.py")):
            found[name] = its
    assert found == {}


IMPORT = "from offheap.proc import opening, root\n"


@pytest.mark.parametrize(
    "code",
    [
        "os.path.lexists(root.our_path(pid, '/tmp/x'))",
        "within(5.0, lambda: os.statvfs(root.through(pid, folder)))",
        "theirs = root.through(pid, folder)\nif theirs.is_symlink(): pass",
        "ours = Path(name) if reachable else root.through(pid, name)\nwithin(5.0, ours.unlink)",
        "open(root.from_cwd(pid, 'x') / 'y')",
        "for home in root.mapped_file(pid, mapping).parents: (home / 'release').read_text()",
        "open(f'/proc/{pid}/root{folder}')",
        "os.listdir('/proc/1/root/tmp')",
        "def f(path): return os.scandir(path)\ndef g(pid): return f(root.through(pid, '/tmp'))",
        "def f(path): return path.stat()\npartial(f, path=1)\npartial(f, root.through(pid, '/tmp'))",
        "def g():\n    path = f'{root.through(pid, x)}/y'\n    [shutil.rmtree(one) for one in [path]]",
        "from offheap.proc.root import through as to\nos.stat(os.fspath(to(pid, '/tmp')))",
    ],
)
def test_what_is_found(code: str) -> None:
    assert len(uses(IMPORT + code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "opening.status(root.our_path(pid, '/tmp/x'))",
        "with entered(root.through(pid, folder)) as above: os.unlink(above / 'x')",
        "os.readlink(f'/proc/{pid}/root')",
        "os.fspath(root.through(pid, '/tmp'))",
        "def f():\n    path = root.through(pid, x)\ndef g(path): path.unlink()",
    ],
)
def test_what_is_not(code: str) -> None:
    assert uses(IMPORT + code) == []
