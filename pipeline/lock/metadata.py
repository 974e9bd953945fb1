"""Requirements of locked wheels, as far as their files are in the wheelhouse."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import Refusal
from pipeline.inventory.distributions import Distribution, Inventory
from pipeline.inventory.metadata import parse_metadata
from pipeline.lock.model import LockedWheel
from pipeline.wheels.directory import DAMAGE, check_directory
from pipeline.wheels.house import Wheelhouse

_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")  # PEP 427


@dataclass(frozen=True)
class Seen:
    """A selection as an inventory of the wheels that are here, and those that are not."""

    inventory: Inventory
    absent: tuple[LockedWheel, ...]


class Metadata:
    """METADATA of wheels in a wheelhouse; each file is opened once, and only if it is intact."""

    def __init__(self, house: Wheelhouse):
        self._house = house
        self._read: dict[str, Distribution | None] = {}

    def see(self, wheels: Sequence[LockedWheel]) -> Seen:
        """The inventory that installing `wheels` would give.

        Raises:
            Refusal: a wheel without readable METADATA.
        """
        found = {wheel: self._distribution(wheel) for wheel in wheels}
        here = tuple(one for one in found.values() if one is not None)
        absent = tuple(wheel for wheel, one in found.items() if one is None)
        return Seen(Inventory((), here), absent)

    def _distribution(self, wheel: LockedWheel) -> Distribution | None:
        if wheel.sha256 not in self._read:
            self._read[wheel.sha256] = self._open(wheel)
        return self._read[wheel.sha256]

    def _open(self, wheel: LockedWheel) -> Distribution | None:
        if not self._house.has(wheel.sha256, wheel.size):
            return None
        try:
            with self._house.path(wheel.sha256).open("rb") as file:
                check_directory(wheel.filename, file)
                with zipfile.ZipFile(file) as archive:
                    # the directory is named as the file is, but not always spelled so
                    (path,) = filter(_METADATA.fullmatch, archive.namelist())
                    metadata = parse_metadata(archive.read(path))
        except DAMAGE as error:
            raise Refusal(f"{wheel.filename}: no readable METADATA: {error}") from None
        return Distribution(
            name=wheel.name,
            spelled=metadata.name,
            version=metadata.version,
            path=path.rpartition("/")[0],
            site="",
            layer=0,
            requires=metadata.requires,
        )
