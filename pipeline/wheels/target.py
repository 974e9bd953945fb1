"""The target of an installation: the Python and platform of the image, never those of this machine.

Tags: PEP 425, PEP 600 (manylinux). Markers: PEP 508. Paths: Debian's `posix_local` scheme.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from packaging.tags import Tag, compatible_tags, cpython_tags

# PEP 600 "Legacy manylinux tags": the glibc that each old name stands for.
_LEGACY = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}
# manylinux begins with glibc 2.17 on every machine but x86.
_OLDEST_GLIBC = {"x86_64": (2, 5)}
_OLDEST_GLIBC_ELSEWHERE = (2, 17)
# Machines by the architectures of OCI's image-spec, which are those of Go (GOARCH) and of Debian.
MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Target:
    """Where wheels are installed to.

    `python` is the full version of the image's interpreter, `machine` is what `uname -m` says
    there, `glibc` its C library. `site_packages`, `prefix` and `interpreter` are absolute paths.
    """

    python: str = "3.11.2"
    machine: str = "aarch64"
    glibc: tuple[int, int] = (2, 36)
    site_packages: str = "/usr/local/lib/python3.11/dist-packages"
    prefix: str = "/usr/local"
    interpreter: str = "/usr/bin/python3"

    @property
    def python_version(self) -> tuple[int, int]:
        """Major and minor version of the interpreter."""
        major, minor = self.python.split(".")[:2]
        return int(major), int(minor)

    @property
    def architecture(self) -> str:
        """The machine as OCI images spell it: `arm64`."""
        return next(name for name, machine in MACHINES.items() if machine == self.machine)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "glibc": list(self.glibc)}

    def platforms(self) -> Iterator[str]:
        """Yield the platform tags that fit, best first."""
        major, newest = self.glibc
        oldest = _OLDEST_GLIBC.get(self.machine, _OLDEST_GLIBC_ELSEWHERE)
        for minor in range(newest, oldest[1] - 1, -1):
            yield f"manylinux_{major}_{minor}_{self.machine}"
            if legacy := _LEGACY.get((major, minor)):
                yield f"{legacy}_{self.machine}"
        yield f"linux_{self.machine}"

    @cached_property
    def _tags(self) -> tuple[Tag, ...]:
        version = self.python_version
        interpreter = f"cp{version[0]}{version[1]}"
        platforms = list(self.platforms())
        return (
            *cpython_tags(version, [interpreter], platforms),
            *compatible_tags(version, interpreter, platforms),
        )

    def tags(self) -> tuple[Tag, ...]:
        """Return the wheel tags that fit, best first, as an installer in the image sees them."""
        return self._tags

    def environment(self) -> dict[str, str]:
        """Return the PEP 508 marker environment of the image. `extra` is the caller's to set."""
        return {
            "implementation_name": "cpython",
            "implementation_version": self.python,
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",  # the kernel's: unknown until the image runs
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": self.python,
            "python_version": ".".join(map(str, self.python_version)),
            "sys_platform": "linux",
        }

    def scheme(self, distribution: str) -> dict[str, str]:
        """Return the absolute install path of every wheel scheme for one distribution."""
        major, minor = self.python_version
        return {
            "purelib": self.site_packages,
            "platlib": self.site_packages,
            "scripts": f"{self.prefix}/bin",
            "headers": f"{self.prefix}/include/python{major}.{minor}/{distribution}",
            "data": self.prefix,
        }
