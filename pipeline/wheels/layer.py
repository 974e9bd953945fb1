"""Write one layer of wheels. A pure function of files: fit for a pool of processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.utils import canonicalize_name

from pipeline.oci.index import LayerIndex
from pipeline.oci.layer import LayerWriter
from pipeline.wheels.destination import Plan, plan
from pipeline.wheels.install import Installed, check_tags, install_wheel
from pipeline.wheels.known import Known
from pipeline.wheels.source import StrictWheel
from pipeline.wheels.target import Target


@dataclass(frozen=True)
class WheelFile:
    """A wheel of the lock: where it lies and what it is called.

    `leave_out` and `overrides` are as for `install_wheel`.
    """

    path: Path
    filename: str
    leave_out: Mapping[str, str] = field(default_factory=dict)
    overrides: Mapping[str, bytes] = field(default_factory=dict)


def plan_wheel(wheel: WheelFile, target: Target, known: Collection[Known] = ()) -> Plan:
    """Return what installing a wheel would write. Raises Refusal as `install_wheel` does."""
    with StrictWheel.open(wheel.path, wheel.filename, known) as source:
        check_tags(source, target)
        return plan(source, target)


def write_wheel_layer(
    wheels: Sequence[WheelFile],
    out: Path,
    target: Target,
    *,
    epoch: int,
    level: int,
    threads: int = 1,
    known: Collection[Known] = (),
    seen: Callable[[str, bytes], None] = lambda path, data: None,
) -> tuple[LayerIndex, list[Installed]]:
    """Write the wheels as one layer blob at `out`, in the order of their canonical names.

    `seen` is as for LayerWriter.

    Conflicts are judged before, over all layers at once (`resolve_conflicts`). Raises Refusal as
    `install_wheel` does; nothing stays at `out` then.
    """
    ordered = sorted(wheels, key=lambda wheel: canonicalize_name(wheel.filename.split("-")[0]))
    with LayerWriter(out, epoch=epoch, level=level, threads=threads, seen=seen) as writer:
        installed = [
            install_wheel(
                wheel.path,
                wheel.filename,
                writer,
                target,
                known=known,
                leave_out=wheel.leave_out,
                overrides=wheel.overrides,
            )
            for wheel in ordered
        ]
        return writer.close(), installed
