"""An expectation from any lock file of the standard format (PEP 751), by whatever tool it came."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.pylock import Package, Pylock, PylockUnsupportedVersionError, PylockValidationError

from pipeline.audit.expectation import Expectation, LockedDistribution
from pipeline.documents import Malformed, parse_toml
from pipeline.errors import Fault, FaultyFile, UsageError


def read_lockfile(path: Path, environment: Mapping[str, str]) -> Expectation:
    """Read what a lock file selects in a marker environment, with its default groups.

    Raises UsageError when there is no such file or it selects two versions of one project,
    FaultyFile when it is no lock file.
    """
    try:
        document = parse_toml(path.read_bytes())
        lock = Pylock.from_dict(document)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="name a lock file (PEP 751)") from error
    except Malformed as error:
        raise FaultyFile(str(path), [Fault("", str(error))]) from error
    except (PylockValidationError, PylockUnsupportedVersionError) as error:
        raise FaultyFile(str(path), [Fault("", f"no lock file (PEP 751): {error}")]) from error
    context: dict[str, str | AbstractSet[str]] = {
        **environment,
        "extras": frozenset(),
        "dependency_groups": frozenset(lock.default_groups or ()),
    }
    chosen: dict[str, Package] = {}
    faults: list[Fault] = []
    for number, package in enumerate(lock.packages):
        try:
            if package.marker is not None and not package.marker.evaluate(context, "lock_file"):
                continue
        except (UndefinedComparison, UndefinedEnvironmentName, ValueError) as error:
            problem = f"cannot be judged: {package.marker}: {error}"
            faults.append(Fault(f"packages[{number}].marker", problem))
            continue
        if package.name in chosen:
            raise UsageError(
                f"{path}: selects {package.name} twice for this image",
                hint="a lock with extras or groups is named by a stage, not by its file",
            )
        chosen[package.name] = package
    if faults:
        raise FaultyFile(str(path), faults)
    return Expectation(
        environment=environment,
        label=str(path),
        distributions=tuple(_pin(package) for _, package in sorted(chosen.items())),
    )


def _pin(package: Package) -> LockedDistribution:
    files = [*(package.wheels or ())]
    hashes = [file.hashes.get("sha256") for file in files]
    if package.archive is not None:
        hashes.append(package.archive.hashes.get("sha256"))
    return LockedDistribution(
        package.name,
        None if package.version is None else str(package.version),
        tuple(one for one in hashes if one),
    )
