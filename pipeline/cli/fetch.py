"""`fetch`: every locked file into the wheelhouse, verified."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from pipeline.base.capture import write_capture
from pipeline.base.obtain import obtain_base
from pipeline.chain import BASES, BUILT, Chain
from pipeline.errors import UsageError
from pipeline.lock.model import Lock, LockedWheel
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.reading import layer_index
from pipeline.oci.registry.store import BlobStore
from pipeline.progress import progress_on, readable
from pipeline.project import Project
from pipeline.transfer.fetch import DEFAULT_JOBS, fetch_all
from pipeline.wheels.house import Wheelhouse, default_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `fetch` understands."""
    parser.epilog = "example: sm121-chain fetch --to v5"
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument("--to", metavar="STAGE", help="only what this stage needs (default: all)")
    parser.add_argument("--offline", action="store_true", help="only verify what is here")
    parser.add_argument(
        "--mirror", default="", metavar="REF", help="where a base image is taken from"
    )
    parser.add_argument(
        "--capture",
        type=Path,
        metavar="FILE",
        help="write what is in the layers of a base image; the lock may name that file",
    )
    parser.add_argument("--debian-mirror", metavar="URL", help="a Debian archive, instead of apt's")
    parser.add_argument("--jobs", type=int, default=DEFAULT_JOBS, metavar="N", help="processes")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Fetch, then link the wheels under their own names into `wheelhouse/` beside the lock.

    With --capture, stdout is what the lock can say of the file that was written.
    """
    if args.jobs < 1:
        raise UsageError(f"--jobs {args.jobs}: at least one is needed", hint="--jobs 1")
    project = Project(Path.cwd(), args.line)
    # A line that no chain stands on, such as the toolbox, has bases of its own: all are fetched.
    own = () if set(BASES) & set(project.lock.bases) else sorted(project.lock.bases)
    for name in own or (args.base,):
        _fetch(project, name, args, chain=not own)
    return 0


def _fetch(project: Project, name: str, args: argparse.Namespace, *, chain: bool) -> None:
    lock = project.lock
    base = lock.base(name)
    if args.capture and not base.image:
        raise UsageError(
            f"--capture: base {base.name} is no image of a registry",
            hint="leave it away: every file of this base is in the lock",
        )
    if chain:
        wheels = needed_wheels(lock, project.chain, name, args.to)
    else:
        wheels = list(lock.select(name))
    house = Wheelhouse(default_cache())
    began = time.monotonic()
    if base.image:
        with progress_on(sys.stderr, quiet=args.quiet) as progress:
            obtained = obtain_base(
                base, BlobStore(house.cache), progress, mirror=args.mirror, offline=args.offline
            )
            obtained.bring(obtained.image.layers, progress)
        for warning in obtained.warnings:
            print(f"warning: {warning}" if warning[0] != " " else warning, file=sys.stderr)
        if args.capture:
            _capture(args.capture, obtained.image, house.cache)
    fetched = fetch_all(
        [*base.debs, *wheels],
        house,
        python=base.python,
        dated=f"as of {lock.exclude_newer}",
        offline=args.offline,
        debian_mirror=args.debian_mirror,
        jobs=args.jobs,
        progress=progress_on(sys.stderr, quiet=args.quiet),
    )
    house.link_named(project.root / "wheelhouse", wheels)
    for warning in fetched.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(
        f"{fetched.kept + fetched.came} files, {readable(fetched.size)}, verified in"
        f" {time.monotonic() - began:.1f} s: {fetched.came} fetched now"
        f" ({readable(fetched.came_size)}), {fetched.kept} kept from earlier in {house.cache}",
        file=sys.stderr,
    )


def _capture(path: Path, image: ImageFile, cache: Path) -> None:
    store = BlobStore(cache)
    indexes = [
        layer_index(store.path(layer.digest), layer.digest, cache / "indexes")
        for layer in image.layers
    ]
    found = write_capture(path, image, indexes)
    print(f'captured = {{ path = "{found.path}", sha256 = "{found.sha256}", size = {found.size} }}')


def needed_wheels(lock: Lock, chain: Chain, base: str, to: str | None) -> list[LockedWheel]:
    """The wheels that stages install on a base, up to the stage `to`, or for all stages.

    The base `wheels` is itself made of wheels; the image of another base holds its own already, so
    only what its stages change is needed.
    """
    found = set[LockedWheel]() if lock.base(base).image else set(lock.select(base))
    for stage in chain if to is None else chain.path(to):
        if stage.on(base).state == BUILT:
            parent = chain.built_ancestor(stage.name, base)
            before = lock.select(base, chain.groups(parent))
            found |= set(lock.select(base, chain.groups(stage.name))) - set(before)
            artifacts = [lock.artifact(*payload.wheel) for payload in stage.files_on(base)]
            found |= {wheel for wheel in artifacts if wheel is not None}
    return sorted(found)
