"""Find modules as the image's interpreter would: site-packages, then what path files add."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pipeline.inventory.answers import Answers
from pipeline.oci.index import DIRECTORY
from pipeline.oci.tree import Located
from pipeline.oci.view import ImageView

# The one form of code in path files that is understood: nvidia-cutlass-dsl adds `dsl_packages`.
_JOINED = re.compile(
    r"import [\w, ]+; *sys\.path\.(?:insert\(0, *|append\()os\.path\.join\("
    r"(?P<package>\w+)\.__path__\[0\], *'(?P<directory>[\w/]+)'\)\)"
)
# What a package does that makes modules which are no files of its own.
_DYNAMIC = (b"sys.modules", b"__path__")


def search_path(view: ImageView, site: str, answers: Answers) -> tuple[str, ...]:
    """Return `site` and the directories that its .pth files add, in the order of `site.py`.

    Lines that import code are skipped, but for one form: what they do is known when they run.
    """
    names = sorted(
        path for path in view.tree.select(_is_path_file) if path.rpartition("/")[0] == site
    )
    additions = answers.of(view, names, "additions", _additions)
    found = [site]
    for name in names:
        for added in additions[name]:
            path = added if added.startswith("/") else f"{site}/{added}"
            directory = view.tree.real_path(path)
            if directory:
                found.append(directory)
    return tuple(found)


def _additions(path_file: bytes) -> list[str]:
    lines = path_file.decode("utf-8", "backslashreplace").splitlines()
    return [added for line in lines if (added := _added(line.strip()))]


def _added(line: str) -> str:
    """Return the directory that a line of a path file adds, "" for none."""
    if line.startswith(("import ", "import\t")):
        match = _JOINED.fullmatch(line)
        return f"{match['package']}/{match['directory']}" if match else ""
    return "" if line.startswith("#") else line


def module_file(view: ImageView, directories: Sequence[str], module: str) -> str | None:
    """Return the source file of a dotted module name, None when no directory has it."""
    return next(_candidates(view, directories, module.replace(".", "/")), None)


def _candidates(view: ImageView, directories: Sequence[str], path: str) -> Iterator[str]:
    for directory in directories:
        for suffix in ("/__init__.py", ".py"):
            real = view.tree.real_path(f"{directory}/{path}{suffix}")
            located = view.tree.get(real) if real else None
            if located is not None and located.entry.has_content:
                yield located.entry.path


@dataclass(frozen=True)
class Modules:
    """The modules that an image's files provide, in the directories of its search path."""

    view: ImageView
    directories: tuple[str, ...]
    answers: Answers = field(default_factory=Answers, compare=False, repr=False)
    _missing_parts: dict[str, str | None] = field(default_factory=dict, compare=False)

    def missing(self, module: str) -> str | None:
        """Return the first part of a dotted name that no file provides, None when all is there.

        None also where files cannot tell: below a module that is no package of source files
        (an extension makes its own submodules), and below a package whose `__init__` meddles with
        `sys.modules` or its own `__path__`.
        """
        if module not in self._missing_parts:
            self._missing_parts[module] = self._missing(module)
        return self._missing_parts[module]

    def source(self, module: str) -> str | None:
        """Return the one source file that a module is made of, and nothing else.

        None for a namespace package or an extension, and below a package that makes modules.
        """
        places = list(self.directories)
        parts = module.split(".")
        for part in parts[:-1]:
            package = self._package([f"{place}/{part}" for place in places])
            if package is None or self._dynamic([package]):
                return None
            places = [package]
        paths = [f"{place}/{parts[-1]}" for place in places]
        package = self._package(paths)
        if package is not None:
            return self.view.tree.real_path(f"{package}/__init__.py")
        if any(path in self._extensions for path in paths):
            return None
        found = next((f"{path}.py" for path in paths if self._is_file(f"{path}.py")), None)
        return self.view.tree.real_path(found) if found else None

    def _package(self, paths: Sequence[str]) -> str | None:
        return next((path for path in paths if self._is_file(f"{path}/__init__.py")), None)

    def _missing(self, module: str) -> str | None:
        parts = module.split(".")
        places = list(self.directories)
        for depth in range(1, len(parts) + 1):
            paths = [f"{place}/{parts[depth - 1]}" for place in places]
            package = self._package(paths)
            if package is None:
                if any(self._is_file(f"{path}.py") or path in self._extensions for path in paths):
                    return None
                spaces = [path for path in paths if self._is_folder(path)]
                if not spaces:
                    return None if depth > 1 and self._dynamic(places) else ".".join(parts[:depth])
                places = spaces  # a namespace package: all of its portions count
            else:
                places = [package]
        return None

    def _is_file(self, path: str) -> bool:
        located = self.view.tree.nodes.get(path) or self.view.tree.resolve(path)
        return located is not None and located.entry.has_content

    def _dynamic(self, packages: Sequence[str]) -> bool:
        real = [self.view.tree.real_path(f"{package}/__init__.py") for package in packages]
        there = [path for path in real if path and self._is_file(path)]
        return any(self.answers.of(self.view, there, "dynamic", _makes_modules).values())

    def _is_folder(self, path: str) -> bool:
        """Whether this is a directory, be it one that no layer names."""
        located = self.view.tree.nodes.get(path)
        if located is not None and located.entry.type == DIRECTORY:
            return True
        return self.view.tree.has_below(path)

    @cached_property
    def _extensions(self) -> frozenset[str]:
        """Paths of extension modules without what follows the first dot of their names."""
        found = set()
        for path in self.view.tree.select(_is_extension):
            directory, _, name = path.rpartition("/")
            found.add(f"{directory}/{name.split('.', 1)[0]}")
        return frozenset(found)


def _makes_modules(source: bytes) -> bool:
    return any(word in source for word in _DYNAMIC)


def _is_path_file(node: Located) -> bool:
    return node.entry.path.endswith(".pth") and node.entry.has_content


def _is_extension(node: Located) -> bool:
    return node.entry.path.endswith(".so")
