"""`verify`: what is published against what the lock builds."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pipeline.audit.findings import ERROR
from pipeline.audit.run import audit
from pipeline.chain import BASES
from pipeline.errors import UsageError
from pipeline.graph import Plan, PlannedImage
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.remote import find_remote, open_remote
from pipeline.oci.registry.store import BlobStore
from pipeline.patching.scopes import scope_bytes
from pipeline.progress import progress_on
from pipeline.project import Project
from pipeline.standing import DIST, built_image, planned_image
from pipeline.steps.params import expectation_from
from pipeline.verification import Compared, check_blobs, compare_published
from pipeline.wheels.house import default_cache

_NAME = "org.opencontainers.image.version"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = "example: sm121-chain verify registry.example.org/me/chain@sha256:…"
    parser.add_argument("reference", metavar="REF", help="HOST/NAME[:TAG][@sha256:HEX]")
    parser.add_argument("--stage", metavar="STAGE", help="default: the one that it says it is")
    parser.add_argument(
        "--dist", type=Path, default=DIST, metavar="DIR", help="what was built (default: dist)"
    )
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument("-v", "--verbose", action="store_true", help="also what is as it should be")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Compare part by part; where layers differ, look for the patches in the image itself."""
    reference = parse_reference(args.reference.removeprefix("docker://"))
    repository = Repository(reference)
    published = find_remote(repository, reference)
    plan, planned = planned_image(
        Project(Path.cwd(), args.line), args.base, args.stage or _stage(published)
    )
    built = built_image(planned, args.dist)
    results = [*compare_published(published, built), *check_blobs(repository, published)]
    params = plan.steps[planned.gate[0]].params["expectation"]
    patches = list(dict.fromkeys(patch["name"] for patch in params["patches"]))
    if published.layers == built.layers:
        results += [
            Compared(f"patch {name}", is_good=True, how="present: the layers are those built")
            for name in patches
        ]
    else:
        results += _look(args, repository, published, plan, planned)
    for result in results:
        if args.verbose or not result.is_good:
            print(result)
    bad = sum(not result.is_good for result in results)
    print(
        f"{reference.name}@{published.digest}: {planned.tag}: {len(results) - bad} parts as built,"
        f" {bad} not; {len(published.layers)} layers, {len(patches)} patches"
    )
    return 1 if bad else 0


def _stage(published: ImageFile) -> str:
    labels = (published.document.get("config") or {}).get("Labels") or {}
    name = labels.get(_NAME)
    if not name:
        raise UsageError(
            f"{published.name}: it does not say which stage it is",
            hint="name it with --stage",
        )
    return str(name)


def _look(
    args: argparse.Namespace,
    repository: Repository,
    published: ImageFile,
    plan: Plan,
    planned: PlannedImage,
) -> list[Compared]:
    """Audit the published image itself: its patches, and every error."""
    expectation = expectation_from(plan.steps[planned.gate[0]].params["expectation"], {})
    cache = default_cache()
    with progress_on(sys.stderr, quiet=args.quiet) as progress:
        view = open_remote(
            repository, published, BlobStore(cache), index_cache=cache / "indexes", meter=progress
        )
        report = audit(view, expectation, read_scope=scope_bytes)
    errors = [finding for finding in report.findings if finding.severity == ERROR]
    lost = {finding.path for finding in errors}
    results = [
        Compared(f"patch {patch.name}", is_good=True, how=f"present in {patch.file}")
        for patch in expectation.patches
        if patch.file not in lost
    ]
    results += [
        Compared(f"{one.rule} {one.subject}", is_good=False, how=one.message) for one in errors
    ]
    return results
