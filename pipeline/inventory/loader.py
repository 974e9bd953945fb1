"""Which copy of a shared library the dynamic loader takes, found without running anything.

Order: ld.so(8): RPATH of the object (unless it has a RUNPATH), LD_LIBRARY_PATH, RUNPATH,
/etc/ld.so.cache, the system's directories. Where ld.so.conf names directories that the cache does
not have, they come after it: the NVIDIA runtime runs ldconfig when a container starts.

What is not modelled: an RPATH of whoever loaded the object, hardware subdirectories, and that a
library which is loaded already answers to its SONAME from then on.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from pipeline.oci.binary import elf_machine
from pipeline.oci.elf import Elf
from pipeline.oci.index import FILE, HARDLINK
from pipeline.oci.tree import Located
from pipeline.oci.view import ImageView

_TRIPLETS = {183: "aarch64-linux-gnu", 62: "x86_64-linux-gnu"}
_LIBRARY = re.compile(r"lib[^/]*\.so(?:\.[^/]*)?")
_CACHE, _CONF = "etc/ld.so.cache", "etc/ld.so.conf"
_MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sIIB3xI12x")
_ENTRY = struct.Struct("<iIIIQ")
_MAX_CACHE = 16 * 1024 * 1024
_MAX_DIRECTORIES = 256  # of one search path
_ROUTES = ("RPATH", "LD_LIBRARY_PATH", "RUNPATH", "ld.so.cache", "ld.so.conf", "the system")


class Taken(NamedTuple):
    """The file that the loader takes, and the rule (one of `_ROUTES`) by which it does."""

    path: str
    route: str


class User(NamedTuple):
    """An object that needs a library, by path, and what it gets."""

    path: str
    taken: Taken


@dataclass(frozen=True)
class Copies:
    """Several files of one SONAME with different content. `paths` are all of them, sorted; `users`
    the objects that need it, by path; `bare` what `dlopen("<soname>")` of a program without a
    search path of its own gets, such as ctypes in Python; None for nothing."""

    soname: str
    paths: tuple[str, ...]
    users: tuple[User, ...]
    bare: Taken | None

    @property
    def taken(self) -> tuple[str, ...]:
        """The copies that somebody gets, sorted."""
        found = {user.taken.path for user in self.users}
        return tuple(sorted(found | ({self.bare.path} if self.bare else set())))


class Loader:
    """The loader's view of an image; `binaries` is what it reads of each file, by sha256."""

    def __init__(self, view: ImageView, binaries: Mapping[str, Elf]):
        self._view, self._tree = view, view.tree
        self._directories: dict[str, str] = {}
        self._objects: dict[str, tuple[Elf, Located]] = {}
        # Objects of one directory share their search paths, and need much the same.
        self._found: dict[tuple[str, int, tuple[str, ...], tuple[str, ...]], Taken | None] = {}
        for path, located in self._tree.nodes.items():
            elf = binaries.get(located.entry.sha256) if located.entry.start else None
            if elf is not None and located.entry.type in (FILE, HARDLINK):
                self._objects[path] = (elf, located)

    @cached_property
    def copies(self) -> tuple[Copies, ...]:
        """Every library that the image has in several builds, by SONAME."""
        found = []
        for soname, paths in self._providers.items():
            contents = {self._objects[path][1].entry.sha256 for path in paths}
            if len(contents) > 1:
                found.append(
                    Copies(soname, tuple(paths), tuple(self._users(soname)), self.bare(soname))
                )
        return tuple(found)

    @cached_property
    def taken(self) -> Mapping[str, tuple[str, ...]]:
        """The files that objects get for each name that they need, by name; what no file of the
        image provides is left out (libcuda.so.1 is the host's)."""
        found: dict[str, set[str]] = {}
        for path, (elf, _) in self._objects.items():
            for name in elf.needed:
                taken = self.take(name, path)
                if taken is not None:
                    found.setdefault(name, set()).add(taken.path)
        return {name: tuple(sorted(paths)) for name, paths in found.items()}

    @cached_property
    def needed_by(self) -> Mapping[str, tuple[str, ...]]:
        """The objects that need a library, by the name that they need."""
        found: dict[str, list[str]] = {}
        for path, (elf, _) in self._objects.items():
            for name in elf.needed:
                found.setdefault(name, []).append(path)
        return {name: tuple(sorted(paths)) for name, paths in found.items()}

    def take(self, name: str, user: str) -> Taken | None:
        """Return what an object, by path, gets for a name that it needs."""
        elf, located = self._objects[user]
        machine = _machine(located)
        key = (name, machine, self._path(elf.rpath, user), self._path(elf.runpath, user))
        if key not in self._found:
            self._found[key] = self._search(*key)
        return self._found[key]

    def bare(self, name: str) -> Taken | None:
        """Return what a program without a search path of its own gets for a name."""
        return self._search(name, self._machine, (), ())

    def _search(
        self, name: str, machine: int, rpath: tuple[str, ...], runpath: tuple[str, ...]
    ) -> Taken | None:
        if "/" in name:  # a path is no name: nothing is searched
            real = self._tree.real_path(name)
            return Taken(real, _ROUTES[0]) if real in self._objects else None
        routes = zip(
            _ROUTES,
            (rpath, self._environment, runpath, (), self._configured, _system(machine)),
            strict=True,
        )
        for route, directories in routes:
            if route == "ld.so.cache":
                found = self._loadable(self._cached.get(name, ""), machine)
                if found is not None:
                    return Taken(found, route)
            for directory in directories:
                real = self._real(directory)
                found = self._loadable(f"{real}/{name}" if real else name, machine)
                if found is not None:
                    return Taken(found, route)
        return None

    def _loadable(self, path: str, machine: int) -> str | None:
        """Return the object that a path leads to; one for another machine is passed over."""
        located = self._tree.nodes.get(path)
        if located is None:
            return None
        real = path if path in self._objects else self._tree.real_path(path)
        if real is None or real not in self._objects:
            return None
        return real if _machine(self._objects[real][1]) == machine else None

    def _users(self, soname: str) -> Iterator[User]:
        for path, (elf, _) in sorted(self._objects.items()):
            if soname in elf.needed and (taken := self.take(soname, path)) is not None:
                yield User(path, taken)

    @cached_property
    def _providers(self) -> Mapping[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path, (elf, _) in sorted(self._objects.items()):
            if _LIBRARY.fullmatch(elf.soname):
                found.setdefault(elf.soname, []).append(path)
        return {soname: found[soname] for soname in sorted(found)}

    @cached_property
    def _machine(self) -> int:
        """The machine of most objects."""
        machines = Counter(_machine(located) for _, located in self._objects.values())
        return max(machines, key=lambda one: (machines[one], one), default=0)

    @cached_property
    def _environment(self) -> tuple[str, ...]:
        process = self._view.config.get("config")
        texts = process.get("Env") if isinstance(process, dict) else None
        for text in texts or ():
            key, _, value = str(text).partition("=")
            if key == "LD_LIBRARY_PATH":
                # An empty member is the current directory, which is not known here.
                return tuple(one for one in re.split("[:;]", value) if one)[:_MAX_DIRECTORIES]
        return ()

    def _path(self, text: str, user: str) -> tuple[str, ...]:
        if not text:
            return ()
        origin = "/" + posixpath.dirname(user)
        parts = [one for one in text.split(":") if one][:_MAX_DIRECTORIES]
        return tuple(re.sub(r"\$(ORIGIN|\{ORIGIN\})", lambda _: origin, one) for one in parts)

    def _real(self, directory: str) -> str:
        real = self._directories.get(directory)
        if real is None:
            found = self._tree.real_path(posixpath.normpath("/" + directory.lstrip("/")))
            real = self._directories[directory] = found or ""
        return real

    @cached_property
    def _cached(self) -> Mapping[str, str]:
        """The cache: path from the image root by name."""
        located = self._tree.resolve(_CACHE)
        if located is None or not located.entry.has_content or located.entry.size > _MAX_CACHE:
            return {}
        data = self._view.read_many([located.entry.path])[located.entry.path]
        found: dict[str, str] = {}
        for name, path in read_cache(data):
            real = self._tree.real_path(path)
            if real is not None:
                found.setdefault(name, real)
        return found

    @cached_property
    def _configured(self) -> tuple[str, ...]:
        return tuple(self._conf(_CONF, set()))[:_MAX_DIRECTORIES]

    def _conf(self, path: str, seen: set[str]) -> Iterator[str]:
        """Yield the directories of a configuration file and of those that it includes."""
        located = self._tree.resolve(path)
        if located is None or not located.entry.has_content or located.entry.size > _MAX_CACHE:
            return
        real = located.entry.path
        if real in seen:
            return
        seen.add(real)
        for line in self._view.read_many([real])[real].decode("utf-8", "replace").splitlines():
            words = line.partition("#")[0].split()
            if words[:1] == ["include"]:
                for pattern in words[1:]:
                    wanted = posixpath.normpath(posixpath.join("/etc", pattern)).lstrip("/")
                    directory = posixpath.dirname(wanted)
                    there = [one.entry.path for one in self._tree.under(directory)]
                    for one in fnmatch.filter(there, wanted):
                        yield from self._conf(one, seen)
            else:
                yield from words


def read_cache(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield (name, path) of a cache in the order of the file; nothing for what is none.

    Format: glibc, sysdeps/generic/dl-cache.h, "struct cache_file_new", little-endian.
    """
    start = max(data.find(_MAGIC), 0)  # an older format may stand before it
    data = data[start:]
    if not data.startswith(_MAGIC) or len(data) < _HEADER.size:
        return
    count = _HEADER.unpack_from(data)[1]
    most = (len(data) - _HEADER.size) // _ENTRY.size
    for number in range(min(count, most)):
        _, key, value, _, _ = _ENTRY.unpack_from(data, _HEADER.size + number * _ENTRY.size)
        texts = []
        for at in (key, value):
            end = data.find(b"\0", at) if at < len(data) else -1
            texts.append(data[at:end].decode("utf-8", "surrogateescape") if end >= 0 else "")
        if all(texts):
            yield texts[0], texts[1]


def _machine(located: Located) -> int:
    return _machine_of(located.entry.start)


@lru_cache(maxsize=1024)
def _machine_of(start: str) -> int:
    found = elf_machine(bytes.fromhex(start))
    return found[2] if found else 0


def _system(machine: int) -> tuple[str, ...]:
    triplet = _TRIPLETS.get(machine)
    multiarch = (f"/lib/{triplet}", f"/usr/lib/{triplet}") if triplet else ()
    return (*multiarch, "/lib64", "/usr/lib64", "/lib", "/usr/lib")
