"""`load`: an image into docker, podman or nerdctl, here or on a host."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import BinaryIO

from pipeline.chain import BASES
from pipeline.errors import Refusal, UsageError
from pipeline.hosts.runtime import HERE, RUNTIMES, Runtime
from pipeline.oci.imagefile import Descriptor
from pipeline.oci.reading import find_image
from pipeline.oci.references import parse_output
from pipeline.oci.registry.elsewhere import Elsewhere
from pipeline.oci.saving import write_archive
from pipeline.progress import progress_on
from pipeline.standing import standing_subject
from pipeline.subjects import parse_subject
from pipeline.wheels.house import default_cache

REPOSITORY = "sm121-chain"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = "example: sm121-chain load v8 --host rank1"
    parser.add_argument("stage", metavar="STAGE", help="a stage in dist/, or oci:DIR[:TAG]")
    parser.add_argument("--host", default=HERE, metavar="H", help="over ssh (default: here)")
    parser.add_argument("--runtime", choices=RUNTIMES, default="", help="default: what answers")
    parser.add_argument("--name", metavar="NAME:TAG", help=f"default: {REPOSITORY}:<tag>")
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Load, and hold what is there now to what was sent; prints `NAME sha256:<fingerprint>`."""
    subject = standing_subject(parse_subject(args.stage), args.line, args.base)
    if subject.transport != "oci":
        raise UsageError(
            f"{args.stage}: only what stands in an OCI layout can be loaded",
            hint="name a stage, or oci:DIR[:TAG]",
        )
    image, layout = find_image(subject.path, subject.tag)
    name = args.name or f"{REPOSITORY}:{subject.tag or 'latest'}"
    parse_output(name)
    runtime = Runtime.on(args.host, args.runtime)

    elsewhere = Elsewhere(default_cache(), subject.source)

    def blob(layer: Descriptor) -> Path:
        return elsewhere.path(image, layout, layer)

    with progress_on(sys.stderr, quiet=args.quiet) as progress:
        progress.begin("loading", 1, sum(layer.size for layer in image.layers))

        def write(stream: BinaryIO) -> None:
            write_archive(image, blob, name, stream, progress.moved)

        runtime.load(write)
        progress.done()
    (found,) = runtime.inspect(name)
    if found.identity.fingerprint != image.fingerprint:
        raise Refusal(
            f"{name} on {args.host} has fingerprint {found.identity.fingerprint or 'unknown'},"
            f" {image.fingerprint} was loaded",
            hint="compare tells in what they differ",
        )
    print(f"{name} {image.fingerprint}")
    return 0
