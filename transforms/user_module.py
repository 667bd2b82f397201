"""A user's Python module: its text, the modules of its folder that it imports, and its functions."""

import ast
import hashlib
import linecache
import os
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, resolve_name, spec_from_loader
from types import ModuleType
from typing import Any, NamedTuple, Self, TypeVar

from shardmill.errors import UserError
from shardmill.transforms.options.declare import read_option_file
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import file_error

_INIT = "__init__.py"
_MOST_BYTES = 1 << 20  # of source text: it is part of the job that is sent to a cluster
_lock = threading.RLock()
_loaded: dict[str, "_Loaded"] = {}  # in this process, by the digest of their text


@dataclass(frozen=True, slots=True)
class UserModule:
    """A user's module, with the modules of its folder that it imports."""

    name: str  # file name
    text: str  # source text
    package: str = ""  # package that its relative imports begin at; "" without such imports
    neighbours: tuple[tuple[str, str], ...] = ()  # (path such as models/features.py, source text), sorted by path
    option: str = ""  # flag that names it, for messages

    @classmethod
    def read(cls, path: str, option: str) -> Self:
        """Read the module at `path`, and the modules of its folder and of its package that it imports.

        Raises UserError if a file cannot be read or is not Python, a name in an import has two meanings, or the
        modules are too large to travel.
        """
        module = cls.from_bytes(path.rpartition("/")[2], read_option_file(option.removeprefix("--"), path), option)
        return _Folder.of(path, module).collect(module)

    @classmethod
    def from_bytes(cls, name: str, data: bytes, option: str) -> Self:
        """Return the module with these bytes, alone; raise UserError if they are not Python source in UTF-8."""
        return cls(name, _source_text(f"{option} {name}", data), option=option)

    @property
    def sha256(self) -> str:
        """The SHA-256 of its own text."""
        return _sha256(self.text)

    def to_json(self) -> dict[str, Any]:
        """Return the module as in manifest.json."""
        modules = {path: _sha256(text) for path, text in self.neighbours}
        return {"name": self.name, "sha256": self.sha256, **({"modules": modules} if modules else {})}

    @property
    def contents(self) -> dict[str, Any]:
        """The names that the module defines; raises UserError if it cannot be imported."""
        with _lock:
            if self._key not in _loaded:
                _loaded[self._key] = self._import()
            return vars(_loaded[self._key].module)

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Let import statements inside of functions find the modules of its folder."""
        _ = self.contents
        with _loaded[self._key].importing():
            yield

    @property
    def where(self) -> str:
        """The option and the file, as messages begin."""
        return f"{self.option} {self.name}"

    @property
    def _key(self) -> str:
        return _sha256(repr((self.name, self.text, self.package, self.neighbours)))

    def _import(self) -> "_Loaded":
        module = ModuleType(f"shardmill_module_{self.sha256[:16]}")
        module.__file__, module.__package__ = self.name, self.package
        loaded = _Loaded(module, _Importer(dict(self.neighbours)))
        sys.modules[module.__name__] = module  # dataclasses look there for the names in annotations
        try:
            with loaded.importing():
                _run_source(self.text, self.name, module)
        except ModuleNotFoundError as error:
            raise UserError(
                f"{self.locate(error)} does not import: {error}; what it imports must be installed, here and on"
                " workers, or be a .py file of its folder that an import statement names"
            ) from error
        except Exception as error:
            hint = "; of its folder only the modules that it imports travel with it"
            raise UserError(
                f"{self.locate(error)} does not import: {format_error(error)}"
                f"{hint if isinstance(error, FileNotFoundError) else ''}"
            ) from error
        finally:
            del sys.modules[module.__name__]  # pickles of what it defines hold the definition, and no name of a module
        return loaded

    def locate(self, error: BaseException) -> str:
        """Return the option with the file and line that an error was raised in, as far as it is one of these files."""
        files = {self.name, *(path for path, _ in self.neighbours)}
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
        if not frames:
            return self.where
        file, line = frames[-1].filename, frames[-1].lineno
        return f"{self.where} line {line}" if file == self.name else f"{self.where}: {file} line {line}"


def _source_text(where: str, data: bytes) -> str:
    try:
        text = data.decode()
        compile(text, where, "exec")
    except UnicodeDecodeError as error:
        raise UserError(f"{where} is no text in UTF-8: {error}") from None
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        line = f" line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UserError(f"{where}{line} is no Python: {getattr(error, 'msg', error)}") from None
    return text


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def format_error(error: BaseException) -> str:
    """Return the class and the message of an error, on one line."""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


class _Import(NamedTuple):
    line: int
    module: str  # absolute name
    names: tuple[str, ...] = ()  # imported from it; some may be modules


def _find_imports(text: str, package: str) -> Iterator[_Import]:
    """Yield the imports in a source of `package`, also those inside functions and by `import_module("name")`."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=aliases):
                yield from (_Import(node.lineno, alias.name) for alias in aliases)
            case ast.ImportFrom(module=module, names=aliases, level=level):
                try:
                    base = resolve_name("." * level + (module or ""), package or None)
                except ImportError:  # Python says it once this line runs
                    continue
                yield _Import(node.lineno, base, tuple(alias.name for alias in aliases))
            case ast.Call(
                func=ast.Name(id="import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name))],
            ):
                yield _Import(node.lineno, name)


def _module_name(path: str) -> str:
    return path.removesuffix(f"/{_INIT}").removesuffix(".py").replace("/", ".")


Module = TypeVar("Module", bound=UserModule)


@dataclass(slots=True)
class _Folder:
    """The folder of a module, and those of the packages it is in: what Python finds when a project runs."""

    path: str  # folder of the module
    root: str  # folder of its outermost package; its own if it is in none
    option: str  # flag that names the module
    contents: dict[str, bytes | None] = field(default_factory=dict)  # of files that were looked for, by path

    @classmethod
    def of(cls, path: str, module: UserModule) -> "_Folder":
        """Return the folder of the module at `path`, local or a URL."""
        path = os.path.abspath(path).replace(os.sep, "/") if storage.is_local(path) else path
        folder = cls(path.rpartition("/")[0], path.rpartition("/")[0], module.option)
        while "/" in folder.root and folder.read(storage.join(folder.root, _INIT)) is not None:
            folder.root = folder.root.rpartition("/")[0]
        return folder

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file, None without one; raise UserError if it cannot be read."""
        if path not in self.contents:
            try:
                self.contents[path] = storage.read_bytes(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self.contents[path] = None
            except OSError as error:
                raise file_error(f"{self.option}: {path}, which it imports", error) from None
        return self.contents[path]

    def collect(self, module: Module) -> Module:
        """Return the module with all that it imports of these folders, directly and by what it imports."""
        package = self._package(module)
        found: dict[str, str] = {}
        left = [(module.name, module.text, package)]
        while left:
            file, text, of_package = left.pop()
            where = f"{module.where}" if file == module.name else f"{module.where}: {file}"
            for each in _find_imports(text, of_package):
                for path, data in self._find(each, f"{where} line {each.line}"):
                    if path not in found:
                        found[path] = _source_text(f"{module.where}: {path}", data)
                        within = path.rpartition("/")[0].replace("/", ".")  # at which its relative imports begin
                        left.append((path, found[path], within))
        size = sum(len(text.encode()) for text in found.values())
        if size > _MOST_BYTES:
            raise UserError(
                f"{module.where}: it imports {len(found)} modules of its folder, {size / 1e6:.1f} MB; at most"
                f" {_MOST_BYTES / 1e6:.1f} MB travel with it; install them as a package, here and on workers"
            )
        is_relative = any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(ast.parse(module.text)))
        neighbours = tuple(sorted(found.items()))
        return replace(module, package=package if is_relative else "", neighbours=neighbours)

    def _package(self, module: UserModule) -> str:
        """Return the package of the module: of its folders with an __init__.py, or as many as it has dots."""
        dots = [node.level for node in ast.walk(ast.parse(module.text)) if isinstance(node, ast.ImportFrom)]
        inner = self.path.removeprefix(self.root).strip("/")
        depth = max(len(inner.split("/")) if inner else 0, *dots, 0)
        return ".".join([part for part in self.path.split("/") if part][-depth:]) if depth else ""

    def _find(self, each: _Import, where: str) -> list[tuple[str, bytes]]:
        """Return the path and bytes of each file that an import reads; raise UserError if it could be another."""
        top = each.module.partition(".")[0]
        found: dict[str, list[tuple[str, bytes]]] = {}  # by the root of the names
        for root in self._roots(top):
            if files := self._files(root, each):
                found[root] = files
        if not found:
            return []
        places = {root: storage.join(root, files[0][0]) for root, files in found.items()}
        if len(found) > 1:
            both = " and ".join(sorted(places.values()))
            raise UserError(f"{where} imports {each.module!r}, which could be {both}; rename one of them")
        ((root, files),) = found.items()
        installed = _find_installed(top)
        if installed and files[0][0] not in (f"{top}.py", f"{top}/{_INIT}"):
            return []  # a folder without __init__.py gives way to what is installed
        is_there = storage.is_local(places[root]) and os.path.exists(installed)
        if installed and not (is_there and os.path.samefile(installed, places[root])):
            raise UserError(
                f"{where} imports {each.module!r}, which could be {places[root]} and the installed {installed};"
                " rename the file"
            )
        return files

    def _roots(self, top: str) -> list[str]:
        parts = self.path.split("/")
        named = ["/".join(parts[:index]) for index in range(1, len(parts)) if parts[index] == top]
        return list(dict.fromkeys([self.path, self.root, *named]))

    def _files(self, root: str, each: _Import) -> list[tuple[str, bytes]]:
        outer = each.module.split(".")
        names = [".".join(outer[: index + 1]) for index in range(len(outer))]
        found = [file for name in names if (file := self._file(root, name)) is not None]
        inner = each.names
        if inner == ("*",) and found and _module_name(found[-1][0]) == each.module:
            inner = _all_names(found[-1][1])
        found += [file for name in inner if (file := self._file(root, f"{each.module}.{name}")) is not None]
        return found

    def _file(self, root: str, name: str) -> tuple[str, bytes] | None:
        """Return the file of a module called `name`: of a package before that of a module, as in Python."""
        path = name.replace(".", "/")
        for file in (f"{path}/{_INIT}", f"{path}.py"):
            data = self.read(storage.join(root, file))
            if data is not None:
                return file, data
        return None


def _all_names(data: bytes) -> tuple[str, ...]:
    """Return the texts in `__all__` of a package, some of which may be modules."""
    with_all = [
        node.value
        for node in ast.walk(ast.parse(data))
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets)
    ]
    inner = [node for value in with_all for node in ast.walk(value) if isinstance(node, ast.Constant)]
    return tuple(node.value for node in inner if isinstance(node.value, str))


def _find_installed(name: str) -> str:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):  # ValueError: a module without a specification, as that of a program
        return ""
    return (spec.origin or "") if spec is not None else ""


class _Importer(MetaPathFinder, Loader):
    """Import modules from source texts by their paths; folders without __init__.py are packages too."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.paths = {_module_name(path): path for path in sources}
        self.sources = sources
        parts = [name.split(".") for name in self.paths]
        self.names = {".".join(outer[:index]) for outer in parts for index in range(1, len(outer) + 1)}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of one of the modules, None for others."""
        file = self.paths.get(fullname)
        if file is not None:
            return spec_from_loader(fullname, self, origin=file, is_package=file.endswith(_INIT))
        return ModuleSpec(fullname, None, is_package=True) if fullname in self.names else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the source of a module."""
        file = self.paths[module.__name__]
        module.__file__ = file
        _run_source(self.sources[file], file, module)


def _run_source(text: str, file: str, module: ModuleType) -> None:
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    exec(compile(text, file, "exec"), module.__dict__)


@dataclass(slots=True)
class _Loaded:
    """A module that has run, and those of its folder. Outside of `importing`, `sys.modules` has none of them.

    So another job's modules may have the same names, and pickles hold what a module defines rather than its name.
    """

    module: ModuleType
    importer: _Importer
    neighbours: dict[str, ModuleType] = field(default_factory=dict)

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Let import statements find the modules of the folder."""
        if not self.importer.names:
            yield
            return
        with _lock:
            before = _take_modules(self.importer.names)
            sys.modules.update(self.neighbours)
            sys.meta_path.insert(0, self.importer)
            try:
                yield
            finally:
                sys.meta_path.remove(self.importer)
                self.neighbours = _take_modules(self.importer.names)
                sys.modules.update(before)


def _take_modules(names: Iterable[str]) -> dict[str, ModuleType]:
    return {name: sys.modules.pop(name) for name in names if name in sys.modules}
