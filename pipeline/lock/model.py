"""What a lock says, as values. `pipeline.pins` reads them; nothing here touches a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, cast

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from packaging.version import Version

from pipeline.errors import UsageError
from pipeline.wheels.target import Target

if TYPE_CHECKING:
    from packaging.markers import Environment
    from packaging.pylock import PackageWheel, Pylock


@dataclass(frozen=True, order=True)
class LockedWheel:
    """One wheel file of a selection. `size` is None only while a `url` file was never fetched."""

    name: str
    version: str
    filename: str
    size: int | None
    sha256: str
    url: str | None = None


@dataclass(frozen=True, order=True)
class LockedDeb:
    """One .deb file: `path` is its path below a mirror's root (`pool/main/…`), `size` in bytes."""

    name: str
    version: str
    path: str
    size: int
    sha256: str

    @property
    def filename(self) -> str:
        """Last component of the pool path."""
        return self.path.rpartition("/")[2]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Captured:
    """A file that says what is in the layers of an image: path beside the lock, hex sha256, size.

    See `pipeline.base.capture`.
    """

    path: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Base:
    """What the first stage of a chain starts from.

    `platform` is spelled as OCI does, `linux/arm64`. A base is either an image by digest (`image`,
    `digest`), or a Debian (`suite`, the `packages` asked for, and their closure `debs`) that the
    selected wheels are installed into. `inventory` names the distributions that are established to
    be in the image, as (normalized name, version); `captured` is what is known of its layers.
    """

    name: str
    platform: str
    target: Target
    image: str = ""
    digest: str = ""
    suite: str = ""
    packages: tuple[str, ...] = ()
    debs: tuple[LockedDeb, ...] = ()
    inventory: tuple[tuple[str, str], ...] = ()
    captured: Captured | None = None

    @property
    def site_packages(self) -> str:
        """Where distributions are installed, an absolute path in the image."""
        return self.target.site_packages

    @property
    def python(self) -> str:
        """Version of the interpreter in the base, `3.11.2`, or `3.12` where no more is known."""
        return self.target.python


@dataclass(frozen=True)
class Override:
    """One entry of the ledger: a pin that is ours, not upstream's.

    `group` is the dependency group that brings it, "" for the base itself. `against` says who
    wants what instead. `url` and `sha256` are set where the file is in no index.
    """

    base: str
    group: str
    requirement: Requirement
    against: tuple[str, ...]
    why: str
    review: date
    url: str = ""
    sha256: str = ""

    @property
    def name(self) -> str:
        """Normalized name of the distribution."""
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        """The exact version that is held."""
        return next(iter(self.requirement.specifier)).version


@dataclass(frozen=True)
class Removal:
    """A distribution of a base's image that a group takes out and puts nothing in its place."""

    base: str
    group: str
    distribution: str
    why: str


@dataclass(frozen=True)
class Known:
    """A tolerated fault of an upstream wheel: rule, distribution and path, with the reason.

    For a conflict, `owner` is the distribution whose file stays. For a wrong RECORD, `sha256` is
    the content that is really there, in hex.
    """

    rule: str
    distribution: str
    path: str
    why: str
    owner: str = ""
    sha256: str = ""

    def to_json(self) -> dict[str, str]:
        """The fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Zstd:
    """How new layers are compressed; both are part of the bytes."""

    level: int
    library: str


@dataclass(frozen=True)
class Lock:
    """A whole lock file, read and found free of faults."""

    file: str
    pylock: Pylock
    epoch: int
    exclude_newer: str
    requirements: tuple[str, ...]
    zstd: Zstd
    bases: Mapping[str, Base]
    overrides: tuple[Override, ...]
    removals: tuple[Removal, ...]
    known: tuple[Known, ...]
    artifacts: tuple[LockedWheel, ...] = ()
    _selected: dict[tuple[str, tuple[str, ...]], tuple[LockedWheel, ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def artifact(self, name: str, version: str) -> LockedWheel | None:
        """A wheel that is locked for files out of it, and is never installed."""
        for wheel in self.artifacts:
            if (wheel.name, wheel.version) == (name, version):
                return wheel
        return None

    @property
    def groups(self) -> tuple[str, ...]:
        """Every dependency group, in the order in which the chain brings them."""
        return tuple(self.pylock.dependency_groups or ())

    @property
    def zstd_level(self) -> int:
        """Compression level of new layers."""
        return self.zstd.level

    def base(self, name: str) -> Base:
        """The base of that name.

        Raises:
            UsageError: the lock has no such base.
        """
        if name not in self.bases:
            known = ", ".join(sorted(self.bases))
            raise UsageError(f"{self.file}: no base '{name}'", hint=f"bases of this lock: {known}")
        return self.bases[name]

    def select(self, base: str, groups: Iterable[str] = ()) -> tuple[LockedWheel, ...]:
        """The wheels that `base` holds once every group of `groups` is in, sorted by name.

        Always judged with the base's own Python and platform, never with the host's.

        Raises:
            UsageError: no such base, or no such group.
        """
        chosen = self.base(base)
        wanted = tuple(groups)
        if (base, wanted) not in self._selected:
            self._selected[base, wanted] = self._select(chosen, wanted)
        return self._selected[base, wanted]

    def _select(self, base: Base, wanted: tuple[str, ...]) -> tuple[LockedWheel, ...]:
        if unknown := sorted(set(wanted) - set(self.groups)):
            raise UsageError(
                f"{self.file}: no dependency group {', '.join(unknown)}",
                hint=f"groups of this lock: {', '.join(self.groups) or 'none'}",
            )
        selected = self.pylock.select(
            environment=cast("Environment", base.target.environment()),
            tags=base.target.tags(),
            extras=[base.name],
            dependency_groups=wanted,
        )
        wheels = []
        for package, artifact in selected:
            # the reader lets no other kind of artifact, and no entry without a version, through
            assert package.version is not None
            wheel = cast("PackageWheel", artifact)
            wheels.append(locked_wheel(package.name, package.version, wheel))
        return tuple(sorted(wheels))


def locked_wheel(name: NormalizedName, version: Version, wheel: PackageWheel) -> LockedWheel:
    """A wheel of a PEP 751 entry as the value that the rest of the program uses."""
    return LockedWheel(
        name, str(version), wheel.filename, wheel.size, wheel.hashes["sha256"], wheel.url
    )
