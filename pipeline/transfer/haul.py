"""What a transfer brought home, and how its faults become one error."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.errors import ChainError, OutsideTrouble, Refusal


@dataclass
class Haul:
    """The result of a transfer so far. Threads may append to its lists.

    fetched   names of the files that came and are stored now
    size      their bytes
    warnings  one line each, such as a yanked release
    faults    what did not come; files that came are kept all the same
    """

    fetched: list[str] = field(default_factory=list)
    size: int = 0
    warnings: list[str] = field(default_factory=list)
    faults: list[ChainError] = field(default_factory=list)

    def came(self, name: str, size: int) -> None:
        """Count a file that is in the store now; `size` in bytes."""
        self.fetched.append(name)
        self.size += size

    def raise_faults(self, untried: Iterable[str] = ()) -> None:
        """Raise all faults as one error: a Refusal if any is one, otherwise OutsideTrouble.

        `untried` names the files that were not asked for after the trouble began.
        """
        if not self.faults:
            return
        faults = sorted(self.faults, key=lambda f: (isinstance(f, OutsideTrouble), f.message))
        first = faults[0]
        details = list(first.details)
        for fault in faults[1:]:
            details += [fault.message, *(f"  {line}" for line in fault.details)]
        rest = sorted(untried)
        if rest:
            details.append(f"not tried any more: {len(rest)} files ({rest[0]} …)")
        if self.fetched:
            details.append(f"{len(self.fetched)} other files came and are kept")
        kind = Refusal if isinstance(first, Refusal) else OutsideTrouble
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise kind(first.message + more, hint=first.hint, details=details)
