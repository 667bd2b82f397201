"""Change the package's code in small ways and report which tests notice: `python -m tests.support.code_mutants --help`.

All tests are collected once. Each mutant is a fork in which one function has other code. It runs the tests that reach
this function, the quickest first, until one fails. A second run with `--replay` tries the same mutants on other tests.
"""

import argparse
import ast
import builtins
import copy
import gc
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

_PAIRS = [("Lt", "LtE"), ("Gt", "GtE"), ("Eq", "NotEq"), ("Is", "IsNot"), ("In", "Not" + "In")]
_COMPARED = {getattr(ast, a): getattr(ast, b) for pair in _PAIRS for a, b in (pair, pair[::-1])}
_DROPPED = ast.Expr | ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.Delete
_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
Function = tuple[str, str, int]  # module's file, name, and which of those of one name


def _replacements(node: Any) -> Iterator[tuple[str, ast.AST]]:
    """Yield what may stand in a node's place, and the name of each change."""
    changed = copy.copy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        changed.ops = [_COMPARED[type(node.ops[0])](), *node.ops[1:]]
        yield "comparison", changed
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield "constant", ast.Constant(not node.value if isinstance(node.value, bool) else node.value + 1)
    elif isinstance(node, ast.BoolOp):
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", changed
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield "condition", changed
    elif isinstance(node, ast.Return) and node.value is not None:
        yield "return None", ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Call) and len(node.args) > 1:
        changed.args = [node.args[1], node.args[0], *node.args[2:]]
        yield "arguments", changed
    elif isinstance(node, _DROPPED) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        yield "statement", ast.Pass()


def _places(node: ast.AST) -> Iterator[tuple[ast.AST, Callable[[Any], None]]]:
    """Yield what is below a node, each with what puts another in its place; annotations are left out."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list"):
            continue
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(child, ast.AST):
                if isinstance(value, list):
                    yield child, lambda new, value=value, index=index: value.__setitem__(index, new)  # type: ignore[misc]
                else:
                    yield child, lambda new, field=field: setattr(node, field, new)  # type: ignore[misc]
                yield from _places(child)


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield functions and methods, but none that is within a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _FUNCTIONS):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class Modules:
    """The modules that are changed."""

    def __init__(self, files: list[str]) -> None:
        self.trees = {str(Path(file).resolve()): ast.parse(Path(file).read_text()) for file in files}
        self.functions: dict[Function, Any] = {}
        for file, tree in self.trees.items():
            for name, node in _functions(tree):
                which = sum(known[:2] == (file, name) for known in self.functions)
                self.functions[file, name, which] = node

    def import_all(self) -> None:
        """Import the modules, for only functions that are there can be changed, and some are imported late."""
        for file in self.trees:
            parts = Path(file).relative_to(Path.cwd()).with_suffix("").parts
            import_module(".".join(parts[1:] if parts[0] == "src" else ("shardmill", *parts)))

    def sites(self, function: Function) -> list[tuple[str, int, str, str, Callable[[Any], None], ast.AST, ast.AST]]:
        """Return all mutants of a function: kind, line, old and new text, and how it is done and undone."""
        found = []
        node = self.functions[function]
        for statement in node.body:
            holder = ast.Module([statement], [])
            for old, put in _places(holder):
                for kind, new in _replacements(old):
                    texts = (ast.unparse(ast.fix_missing_locations(copy.deepcopy(each)))[:200] for each in (old, new))
                    place = node.body.index(statement)
                    if old is statement:
                        put = lambda new, place=place: node.body.__setitem__(place, new)  # type: ignore[misc]  # noqa: E731
                    found.append((kind, getattr(old, "lineno", 0), *texts, put, old, new))
        return found  # type: ignore[return-value]

    def change(self, changed: list[Function]) -> None:
        """Give the functions in this process the code that their trees have now."""
        alive: dict[tuple[str, str, int], list[FunctionType]] = {}
        for item in gc.get_objects():
            if isinstance(item, FunctionType) and (item.__code__.co_filename.startswith("/")):
                code = item.__code__
                alive.setdefault((os.path.realpath(code.co_filename), code.co_name, code.co_firstlineno), []).append(
                    item
                )
        for file in {file for file, _, _ in changed}:
            compiled = compile(ast.fix_missing_locations(copy.deepcopy(self.trees[file])), file, "exec")
            codes = {(code.co_name, code.co_firstlineno): code for code in _codes(compiled)}
            for function in changed:
                node = self.functions[function]
                line = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if function[0] == file:
                    for item in alive.get((file, node.name, line), ()):
                        if len(item.__code__.co_freevars) == len(codes[node.name, line].co_freevars):
                            item.__code__ = codes[node.name, line]


def _fork(task: Callable[[], Any], timeout: float) -> Any:
    """Return what `task` returns in a process of its own; None if it takes longer than `timeout`."""
    folder = tempfile.mkdtemp(prefix="mutant")
    answer = Path(folder, "answer.json")
    if (pid := os.fork()) == 0:
        try:
            os.setsid()
            os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
            answer.write_text(json.dumps(task()))
        finally:
            os._exit(0)
    end = time.monotonic() + timeout
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(0.02)
    done = json.loads(answer.read_text()) if answer.exists() and answer.stat().st_size else None
    shutil.rmtree(folder, ignore_errors=True)
    return done


class _Runs:
    """A plugin of pytest that runs the collected tests once for each mutant instead of once."""

    def __init__(self, modules: Modules, arguments: argparse.Namespace) -> None:
        self._modules, self._arguments = modules, arguments
        self._failed: list[str] = []
        self._reached: set[int] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed.append(report.nodeid)

    def _run(self, items: list[Any], after: Callable[[Any, float], None] = lambda *_: None) -> list[str]:
        for item, following in zip(items, [*items[1:], None]):
            begun = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            after(item, time.monotonic() - begun)
            if self._failed and after.__name__ == "<lambda>":
                break
        return self._failed[:1]

    def _observe(self, items: list[Any]) -> dict[str, Any]:
        """Run all tests with functions that note that they were called."""
        functions = list(self._modules.functions)
        for number, function in enumerate(functions):
            call = ast.parse(f"__import__('builtins').mutants_reached.add({number})").body
            self._modules.functions[function].body[:0] = call
        builtins.mutants_reached = self._reached  # type: ignore[attr-defined]
        self._modules.change(functions)
        tests: dict[str, Any] = {}

        def note(item: Any, took: float) -> None:
            tests[item.nodeid] = [took, sorted(self._reached)]
            self._reached.clear()

        self._run(items, note)
        return {"tests": tests, "failed": self._failed}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        root = Path.cwd()
        self._modules.import_all()
        observed = _fork(lambda: self._observe(session.items), 3600)
        bad = set(observed["failed"])
        numbers = {function: number for number, function in enumerate(self._modules.functions)}
        reaching: dict[int, list[tuple[float, str]]] = {}
        for name, (took, reached) in observed["tests"].items():
            for number in reached:
                if name not in bad:
                    reaching.setdefault(number, []).append((took, name))
        sites = {
            (os.path.relpath(function[0], root), *function[1:], index): (function, site)
            for function in self._modules.functions
            if numbers[function] in reaching or self._arguments.replay
            for index, site in enumerate(self._modules.sites(function))
        }
        if self._arguments.replay:
            recorded: list[dict[str, Any]] = json.loads(Path(self._arguments.replay).read_text())["mutants"]
            texts = {(*key[:3], *site[1][2:4]): key for key, site in reversed(sites.items())}
            chosen: list[Any] = []
            for mutant in recorded:
                key: Any = (*mutant["function"], mutant["site"])
                if key not in sites or sites[key][1][2:4] != (mutant["was"], mutant["now"]):
                    key = texts.get((*mutant["function"], mutant["was"], mutant["now"]))
                chosen += [key] if key else []
            print(f"{len(recorded) - len(chosen)} mutants are no longer in the code")
        else:
            count = min(self._arguments.count, len(sites))
            chosen = sorted(random.Random(self._arguments.seed).sample(sorted(sites), count))
        items = {item.nodeid: item for item in session.items}
        mutants = []
        for key in chosen:
            function, (kind, line, was, now, put, old, new) = sites[key]
            tests = sorted(reaching.get(numbers[function], ()))
            put(new)

            def run(function: Function = function, tests: list[tuple[float, str]] = tests) -> list[str]:
                self._modules.change([function])
                return self._run([items[name] for _, name in tests])

            killer = _fork(run, 20 + 4 * sum(took for took, _ in tests)) if tests else []
            put(old)
            by = "timeout" if killer is None else killer[0] if killer else None
            mutants.append(
                {"function": key[:3], "site": key[3], "line": line, "kind": kind, "was": was, "now": now, "by": by}
            )
            print(
                f"{'killed' if by else 'SURVIVED'} {key[0]}:{line} {key[1]}: {kind}: {was[:60]!r} by {by}", flush=True
            )
        killed = sum(mutant["by"] is not None for mutant in mutants)
        print(f"{len(mutants)} mutants, {killed} killed; {len(items)} tests; without mutants fail {sorted(bad)}")
        if self._arguments.output:
            Path(self._arguments.output).write_text(json.dumps({"killed": killed, "mutants": mutants}, indent=1))
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", nargs="+", required=True, help="files of the package that are changed")
    parser.add_argument("--tests", nargs="+", required=True, help="arguments for pytest")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", help="a previous run's output: try its mutants")
    parser.add_argument("--output", help="where mutants and the tests that killed them are written as JSON")
    arguments = parser.parse_args()
    plugin = _Runs(Modules(arguments.modules), arguments)
    pytest.main(
        ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "--no-header", "-s", *arguments.tests], plugins=[plugin]
    )


if __name__ == "__main__":
    main()
