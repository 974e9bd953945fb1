"""`push`: an image into a repository, by digest; the last line on stdout is how to pull it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from pipeline.chain import BASES
from pipeline.errors import UsageError
from pipeline.oci.imagefile import Descriptor, ImageFile
from pipeline.oci.reading import find_image
from pipeline.oci.references import Reference, parse_reference, parse_repository
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.elsewhere import BASE_NAME, Elsewhere
from pipeline.oci.registry.publish import Pushed, push_image
from pipeline.oci.registry.push import How
from pipeline.oci.registry.store import BlobStore
from pipeline.progress import progress_on, readable
from pipeline.standing import standing_subject
from pipeline.subjects import parse_subject
from pipeline.wheels.house import default_cache


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = "example: sm121-chain push v8 registry.example.org/me/chain"
    parser.add_argument("stage", metavar="STAGE", help="a stage in dist/, or oci:DIR[:TAG]")
    parser.add_argument("repository", metavar="REPOSITORY", help="where to: HOST/NAME, no tag")
    parser.add_argument(
        "--mount-from",
        action="append",
        default=[],
        metavar="REPOSITORY",
        help="a repository of the same registry that may have layers (may be repeated)",
    )
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Push; what the registry has already is not sent."""
    target = parse_repository(args.repository)
    sources = [_source(text, target) for text in args.mount_from]
    subject = standing_subject(parse_subject(args.stage), args.line, args.base)
    if subject.transport != "oci":
        raise UsageError(
            f"{args.stage}: only what stands in an OCI layout can be pushed",
            hint="name a stage, or oci:DIR[:TAG]",
        )
    image, layout = find_image(subject.path, subject.tag)
    sources += _base_of(image, target)
    repository = Repository(target, push=True)
    began = time.monotonic()

    elsewhere = Elsewhere(default_cache(), subject.source)

    def blob(layer: Descriptor) -> Path:
        return elsewhere.path(image, layout, layer)

    with progress_on(sys.stderr, quiet=args.quiet) as progress:
        pushed = push_image(
            image, blob, repository, progress, sources=sources, store=BlobStore(default_cache())
        )
    if not args.quiet:
        print(_summary(pushed, time.monotonic() - began), file=sys.stderr)
    print(f"docker pull {pushed.reference}")
    return 0


def _source(text: str, target: Reference) -> str:
    source = parse_reference(text)
    if source.registry != target.registry:
        raise UsageError(
            f"{text}: blobs are mounted within one registry, and {target.registry} is another",
            hint="leave --mount-from away",
        )
    return source.repository


def _base_of(image: ImageFile, target: Reference) -> list[str]:
    """Return the repository that the base came from, if the target's registry has it too."""
    annotations = json.loads(image.manifest).get("annotations") or {}
    name = str(annotations.get(BASE_NAME, ""))
    if "/" not in name:  # a base of our own making was pulled from nowhere
        return []
    base = parse_reference(name)
    is_other = (base.registry, base.repository) != (target.registry, target.repository)
    return [base.repository] if base.registry == target.registry and is_other else []


def _summary(pushed: Pushed, seconds: float) -> str:
    parts = [
        f"{number} blobs {how.value} ({readable(size)})"
        for how in How
        for number, size in [pushed.blobs[how]]
        if number
    ]
    return f"{', '.join(parts)}; what was sent read back; {seconds:.1f} s"
