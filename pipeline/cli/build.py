"""`build`: the chain. stdout is one line an image; everything else goes to stderr."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pipeline.building import Assembly, Built, build
from pipeline.chain import BASES
from pipeline.engines.choice import ENGINES, Settings, choose
from pipeline.engines.local import LocalEngine
from pipeline.engines.schedule import Engine, nothing
from pipeline.engines.unused import prune
from pipeline.errors import UsageError
from pipeline.graph import Plan
from pipeline.lock.model import Base
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.layer import check_zstd
from pipeline.oci.layout import LayoutWriter
from pipeline.oci.registry.remote import missing_layers
from pipeline.oci.registry.store import BlobStore
from pipeline.plan import check_references, make_plan
from pipeline.progress import progress_on, readable
from pipeline.progress_steps import steps_on
from pipeline.project import Project
from pipeline.transfer.fetch import fetch_all
from pipeline.vendor import Ready, ready_base
from pipeline.wheels.house import Wheelhouse, default_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = "example: sm121-chain build --to v5 --offline"
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument("--to", metavar="STAGE", help="only this stage and what it stands on")
    parser.add_argument("--out", type=Path, default=Path("dist"), help="OCI layout (default: dist)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="steps side by side"
    )
    parser.add_argument(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="where steps run; auto is dagger when the environment names an engine or a session",
    )
    parser.add_argument("--offline", action="store_true", help="use no network")
    parser.add_argument(
        "--mirror",
        metavar="REF",
        help="where a base image is taken from: a repository, oci:DIR, docker-archive:FILE",
    )
    parser.add_argument("--debian-mirror", metavar="URL", help="a Debian archive, instead of apt's")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.add_argument("-v", "--verbose", action="store_true", help="the Dagger engine's own log")


def run(args: argparse.Namespace) -> int:
    """Fetch, assemble, audit; images appear in the layout as they are proven."""
    if args.jobs < 1:
        raise UsageError(f"--jobs {args.jobs}: at least one is needed", hint="--jobs 1")
    project = Project(Path.cwd(), args.line)
    house = Wheelhouse(default_cache())
    local = LocalEngine(house.cache, args.jobs)
    if project.is_edited_since(args.out / "index.json"):
        local.start_ahead()
    lock = project.lock
    base = lock.base(args.base)
    if args.mirror and not base.image:
        raise UsageError(
            f"--mirror: base {base.name} is no image of a registry",
            hint="--debian-mirror is where .debs come from",
        )
    check_zstd(lock.zstd.library)
    ready = None
    stages = project.chain.path(args.to) if args.to is not None else tuple(project.chain)
    check_references(lock, stages, project.patches, args.base)
    if not base.image:  # the plan needs nothing else, so what it refuses is refused at once
        plan = make_plan(lock, project.chain, project.patches, base=args.base, to=args.to)
    # Before anything is fetched: a directory that is refused is refused at once.
    layout = LayoutWriter(
        args.out,
        house.trust,
        waiting=lambda: print(f"waiting for another build in {args.out}", file=sys.stderr),
    )
    engine = choose(
        args.engine,
        Settings(
            house,
            args.jobs,
            layout.held,
            offline=args.offline,
            debian_mirror=args.debian_mirror,
            log=sys.stderr if args.verbose else None,
            progress=lambda: progress_on(sys.stderr, quiet=args.quiet),
            local=local,
        ),
    )
    began = time.monotonic()
    if base.image:
        notes = _Notes(quiet=args.quiet)
        ready = _ready(base, project.root, engine, house.cache, notes, args)
        plan = make_plan(
            lock, project.chain, project.patches, base=args.base, to=args.to, vendor=ready.base
        )
    _fetch(plan, project, house, args)
    image = ready.base.image if ready else None
    bring = ready.bring if ready else nothing
    with steps_on(sys.stderr, plan, quiet=args.quiet) as progress:
        if ready:
            notes.show = progress.note
        kept = house.cache / "indexes"
        assembly = Assembly(
            plan, lock, layout, progress, _print, base, house.path, image, bring, kept
        )
        try:
            build(plan, engine, assembly)
        finally:
            if assembly.dropped:
                dropped = ", ".join(assembly.dropped)
                print(
                    f"no longer in {args.out}, not part of this build: {dropped}", file=sys.stderr
                )
    prune(house.cache)
    if not args.quiet:
        if image:
            _left_out(image, BlobStore(house.cache), args)
        images = sum(1 for item in assembly.built.values() if item.image)
        print(
            f"{images} images in {args.out}, {readable(_size(args.out))},"
            f" in {time.monotonic() - began:.1f} s",
            file=sys.stderr,
        )
    return 0


class _Notes:
    """Passes notes on to whatever owns the terminal at the moment."""

    def __init__(self, *, quiet: bool):
        self.show: Callable[[str], None] = lambda text: (
            None if quiet else print(text, file=sys.stderr)
        )

    def __call__(self, text: str) -> None:
        self.show(text)


def _ready(
    base: Base, root: Path, engine: Engine, cache: Path, notes: _Notes, args: argparse.Namespace
) -> Ready:
    with progress_on(sys.stderr, quiet=args.quiet) as progress:
        ready = ready_base(
            base, root, cache, engine, progress, notes,
            mirror=args.mirror or "", offline=args.offline,
        )  # fmt: skip
    for warning in ready.warnings:
        print(f"warning: {warning}" if warning[0] != " " else warning, file=sys.stderr)
    return ready


def _left_out(image: ImageFile, store: BlobStore, args: argparse.Namespace) -> None:
    """Say which layers of a base image the layout names and does not hold."""
    missing = missing_layers(image, store)
    if missing:
        size = readable(sum(layer.size for layer in missing))
        print(
            f"{len(missing)} of the base's {len(set(image.layers))} layers ({size}) were not needed"
            f" and are not in {args.out}; `fetch --base {args.base}` brings them",
            file=sys.stderr,
        )


def _fetch(plan: Plan, project: Project, house: Wheelhouse, args: argparse.Namespace) -> None:
    lock = project.lock
    base = lock.base(args.base)
    needed = {file.sha256 for step in plan.steps.values() for file in step.files}
    groups = [project.chain.groups(stage.name) for stage in project.chain]
    known = {w for g in [(), *groups] for w in lock.select(base.name, g)} | {*lock.artifacts}
    wheels = {wheel for wheel in known if wheel.sha256 in needed}
    fetched = fetch_all(
        [*base.debs, *sorted(wheels)],
        house,
        python=base.python,
        dated=f"as of {lock.exclude_newer}",
        offline=args.offline,
        debian_mirror=args.debian_mirror,
        progress=progress_on(sys.stderr, quiet=args.quiet),
    )
    for warning in fetched.warnings:
        print(f"warning: {warning}", file=sys.stderr)


def _print(built: Built) -> None:
    planned = built.planned
    if built.image:
        line = f"{planned.tag} {built.image.digest} {built.image.fingerprint}"
    else:
        line = f"{planned.tag} {planned.state} {planned.parent}"
    print(line, flush=True)


def _size(layout: Path) -> int:
    return sum(path.stat().st_size for path in (layout / "blobs" / "sha256").iterdir())
