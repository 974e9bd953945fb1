"""The Python and the platform that wheels are chosen for: a base's, never the host's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

from packaging.markers import Environment
from packaging.tags import Tag, compatible_tags, cpython_tags

#: Machine names of the kernel for the platforms as OCI spells them.
MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}

# PEP 600: the older names of some manylinux tags, by the glibc minor that each stands for, and the
# oldest minor that any wheel for the machine may ask for.
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_OLDEST_GLIBC_MINOR = {"aarch64": 17, "x86_64": 5}


@dataclass(frozen=True)
class Target:
    """Platform (`linux/arm64`), CPython version (`3.11.2`, `3.12`) and glibc (`2.36`)."""

    platform: str
    python: str
    glibc: str

    @property
    def machine(self) -> str:
        """Machine as `uname -m` says it there."""
        return MACHINES[self.platform]

    @property
    def python_minor(self) -> tuple[int, int]:
        """Major and minor of the interpreter."""
        major, minor = self.python.split(".")[:2]
        return int(major), int(minor)

    @property
    def uv_platform(self) -> str:
        """The name that uv has for this platform."""
        return f"{self.machine}-manylinux_{self.glibc.replace('.', '_')}"

    def platforms(self) -> list[str]:
        """Platform tags from the most to the least specific, in the order that pip uses."""
        names: list[str] = []
        oldest = _OLDEST_GLIBC_MINOR[self.machine]
        for minor in range(int(self.glibc.split(".")[1]), oldest - 1, -1):
            names.append(f"manylinux_2_{minor}_{self.machine}")
            if minor in _LEGACY:
                names.append(f"{_LEGACY[minor]}_{self.machine}")
        return [*names, f"linux_{self.machine}"]

    def tags(self) -> tuple[Tag, ...]:
        """Every tag that the target accepts, best first (PEP 425, PEP 600)."""
        return _tags(self)

    def environment(self) -> Environment:
        """The marker environment (PEP 508) of the target."""
        version = ".".join(map(str, self.python_minor))
        full = self.python if self.python.count(".") == 2 else f"{self.python}.0"
        return cast(
            "Environment",
            {
                "implementation_name": "cpython",
                "implementation_version": full,
                "os_name": "posix",
                "platform_machine": self.machine,
                "platform_python_implementation": "CPython",
                "platform_release": "",
                "platform_system": "Linux",
                "platform_version": "",
                "python_full_version": full,
                "python_version": version,
                "sys_platform": "linux",
            },
        )


@cache
def _tags(target: Target) -> tuple[Tag, ...]:
    platforms = target.platforms()
    interpreter = "cp{}{}".format(*target.python_minor)
    native = cpython_tags(target.python_minor, abis=[interpreter], platforms=platforms)
    pure = compatible_tags(target.python_minor, interpreter=interpreter, platforms=platforms)
    return (*native, *pure)
