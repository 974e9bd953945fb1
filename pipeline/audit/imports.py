"""Imports of a dependant that a moved, or an overridden, distribution does not provide.

A version of another distribution than was asked for may work all the same. What shows that it does
not, without running anything, is a module that is imported whenever the dependant is, and that no
file of the image provides; or a name that is imported from one that does not define it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from packaging.utils import canonicalize_name

from pipeline.audit.memo import AuditMemo
from pipeline.audit.report import INHERITED, NEW, BrokenImport, Unsatisfied
from pipeline.audit.requirements import Requirements
from pipeline.inventory.answers import Answers
from pipeline.inventory.distributions import Inventory
from pipeline.inventory.imports import MAX_SOURCE, import_line, imports_by_top
from pipeline.inventory.modules import Modules, search_path
from pipeline.inventory.names import defined_names, imported_names, mentioned_names
from pipeline.inventory.ownership import Claim, Ownership
from pipeline.oci.view import ImageView


@dataclass(frozen=True)
class Imports:
    """Imports between the distributions of an image. `below` is the parent image, if known;
    `moved` are the distributions that are not as they were there."""

    view: ImageView
    inventory: Inventory
    ownership: Ownership
    requirements: Requirements
    unsatisfied: Collection[Unsatisfied]
    answers: Answers
    below: ImageView | None
    moved: frozenset[str]
    memo: AuditMemo = field(default_factory=AuditMemo, compare=False)

    def broken(self, inherited: frozenset[tuple[str, str]]) -> tuple[BrokenImport, ...]:
        """Return what cannot be imported, sorted; `inherited` is (dependant, module) of the parent.

        Where a requirement is not met, every such import counts. Where it is met and the
        distribution has moved, those count that the parent still provides: what is missing in both
        is a module that nobody imports here, for other hardware perhaps.
        """
        unmet = {(one.dependant, one.target) for one in self.unsatisfied if one.found}
        pairs = unmet | self._moved_pairs() if self.below is not None else unmet
        wanted: dict[str, dict[str, bool]] = {}
        for dependant, target in sorted(pairs):
            for name in self._family(target) - {dependant}:
                asked = wanted.setdefault(dependant, {})
                asked[name] = asked.get(name, False) or (dependant, target) in unmet
        found = [
            BrokenImport(dependant, *one, INHERITED if (dependant, one[0]) in inherited else NEW)
            for dependant, providers in sorted(wanted.items())
            for one in self._of(dependant, providers)
        ]
        return tuple(sorted(found))

    def _moved_pairs(self) -> set[tuple[str, str]]:
        return {
            (dependant.name, target)
            for dependant, _, requirement in self.requirements.active
            if (target := canonicalize_name(requirement.name)) in self.moved
        }

    def _family(self, name: str) -> set[str]:
        """Return a distribution and those that it pins (==): they hold its modules with it."""
        found: set[str] = set()
        pending = [name]
        while pending:
            one = pending.pop()
            if one not in found and one in self.inventory.by_name:
                found.add(one)
                pending.extend(self._pinned.get(one, ()))
        return found

    @cached_property
    def _pinned(self) -> Mapping[str, set[str]]:
        pinned: dict[str, set[str]] = {}
        for dependant, _, requirement in self.requirements.active:
            if any(one.operator == "==" for one in requirement.specifier):
                names = pinned.setdefault(dependant.name, set())
                names.add(canonicalize_name(requirement.name))
        return pinned

    def _of(
        self, dependant: str, providers: Mapping[str, bool]
    ) -> Iterator[tuple[str, str, int, int, str, str]]:
        """Yield (module, path, line, files, missing part, provider) of broken imports."""
        tops = {top: name for name in sorted(providers) for top in self._tops(name)}
        for top in self._tops(dependant):
            tops.pop(top, None)
        if not tops:
            return
        users: dict[str, list[str]] = {}
        sources = self._sources(dependant)
        imports = self.answers.of(self.view, sources, "imports", imports_by_top)
        for path in sources:
            for top in tops.keys() & imports[path].keys():
                for module in imports[path][top]:
                    users.setdefault(module, []).append(path)
        for module, paths in sorted(users.items()):
            part = self._modules.missing(module)
            provider = tops[module.partition(".")[0]]
            if part is None:
                for one in self._names(module, paths, always=providers[provider]):
                    yield *one, provider
                continue
            if not (providers[provider] or self._was_there(module)):
                continue
            lines = self.answers.of(
                self.view, paths, f"line of {module}", partial(import_line, module=module)
            )
            sure = [path for path in paths if lines[path] is not None]
            if sure:
                yield module, sure[0], lines[sure[0]] or 0, len(sure), part, provider

    def _was_there(self, module: str) -> bool:
        return self._modules_below is not None and self._modules_below.missing(module) is None

    def _names(
        self, module: str, paths: Sequence[str], *, always: bool
    ) -> Iterator[tuple[str, str, int, int, str]]:
        """Yield (dotted name, path, line, files, dotted name) of names that a module has not.

        Unless `always`, of those only that the parent's module defines.
        """
        there = self._definitions(self._modules, module)
        if there is None or (not always and self._modules_below is None):
            return
        mentioned = self.answers.of(
            self.view, paths, f"mentioned of {module}", partial(mentioned_names, module=module)
        )
        asked = {path: set(names) - there for path, names in mentioned.items()}
        absent = {
            name
            for name in set().union(*asked.values())
            if not self._is_submodule(module, name) and (always or self._had(module, name))
        }
        places: dict[str, list[tuple[str, int]]] = {}
        askers = [path for path in paths if asked[path] & absent]
        imported = self.answers.of(
            self.view, askers, f"imported from {module}", partial(imported_names, module=module)
        )
        for path, names in imported.items():
            for name, line in names.items():
                if name in absent:
                    places.setdefault(name, []).append((path, line))
        for name, (first, *more) in sorted(places.items()):
            dotted = f"{module}.{name}"
            yield dotted, *first, 1 + len(more), dotted

    def _is_submodule(self, module: str, name: str) -> bool:
        package = (self._modules.source(module) or "").endswith("/__init__.py")
        return package and self._modules.missing(f"{module}.{name}") is None

    def _had(self, module: str, name: str) -> bool:
        """Is it certain that the name, or a submodule called so, is in the parent?"""
        if self._modules_below is None:
            return False
        names = self._definitions(self._modules_below, module) or frozenset()
        return name in names or self._modules_below.source(f"{module}.{name}") is not None

    def _definitions(self, modules: Modules, module: str) -> frozenset[str] | None:
        """Return the names that a module defines, None where its source does not tell."""
        source = modules.source(module)
        if source is None:
            return None
        names = self.answers.of(modules.view, [source], "defined", defined_names)[source]
        return None if names is None else frozenset(names)

    @cached_property
    def _modules(self) -> Modules:
        return Modules(self.view, self._directories, self.answers)

    @cached_property
    def _modules_below(self) -> Modules | None:
        if self.below is None:
            return None
        sites = self.inventory.sites
        directories = [one for site in sites for one in search_path(self.below, site, self.answers)]
        return Modules(self.below, tuple(directories), self.answers)

    @cached_property
    def _directories(self) -> tuple[str, ...]:
        sites = self.inventory.sites
        return tuple(one for site in sites for one in search_path(self.view, site, self.answers))

    def _tops(self, name: str) -> set[str]:
        """Return the top-level modules of a distribution; none of one that holds no code."""
        files = self._files(name)
        if not any(claim.located and claim.located.entry.size for claim, _ in files):
            return set()
        return {inner.partition("/")[0].partition(".")[0] for _, inner in files}

    def _sources(self, name: str) -> list[str]:
        """Return the sources of a distribution, sorted: those in packages, each of which has an
        `__init__`, without those that are larger than what people write."""
        packaged: dict[tuple[str, int], bool] = {}
        found = []
        for claim, inner in self._files(name):
            if inner.endswith(".py"):
                key = (claim.path.rpartition("/")[0], inner.count("/"))
                if key not in packaged:
                    packaged[key] = self._is_package(*key)
                if packaged[key] and claim.located and claim.located.entry.size <= MAX_SOURCE:
                    found.append(claim.path)
        return sorted(found)

    def _is_package(self, directory: str, depth: int) -> bool:
        for _ in range(depth):
            if f"{directory}/__init__.py" not in self.view.tree.nodes:
                return False
            directory = directory.rpartition("/")[0]
        return True

    def _files(self, name: str) -> list[tuple[Claim, str]]:
        """Return the files that modules are made of, with their paths in the search path."""
        facts = self.memo.of(self.ownership.claims_of(name))
        if self._prefixes not in facts.modules:
            facts.modules[self._prefixes] = list(self._modules_of(facts.claims))
        return facts.modules[self._prefixes]

    def _modules_of(self, claims: Collection[Claim]) -> Iterator[tuple[Claim, str]]:
        for claim in claims:
            if claim.located is None or not claim.path.endswith((".py", ".so")):
                continue
            for prefix in self._prefixes:
                if claim.path.startswith(prefix):
                    yield claim, claim.path[len(prefix) :]
                    break

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        # The longest directory first: one can lie inside another.
        return tuple(f"{one}/" for one in sorted(self._directories, key=len, reverse=True))
