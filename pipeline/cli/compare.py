"""`compare`: is one image on every host? Unknown is no."""

from __future__ import annotations

import argparse

from pipeline.chain import BASES
from pipeline.errors import OutsideTrouble
from pipeline.hosts.inspection import Inspected, differences
from pipeline.hosts.runtime import HERE, RUNTIMES, Runtime
from pipeline.oci.identity import Identity, Relation, compare
from pipeline.standing import standing_subject
from pipeline.subjects import describe_subject, parse_subject

_SAME = (Relation.SAME_IMAGE, Relation.SAME_CONTENT)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = "example: sm121-chain compare v8 here rank1 rank2"
    parser.add_argument(
        "subject",
        metavar="SUBJECT",
        help="oci:DIR[:TAG], docker-archive:FILE[:TAG], docker://REF, or a stage in dist/",
    )
    parser.add_argument(
        "hosts", nargs="+", metavar="HOST", help=f"a name for ssh; {HERE!r} is this one"
    )
    parser.add_argument("--image", metavar="NAME", help="its name there (default: by content)")
    parser.add_argument("--runtime", choices=RUNTIMES, default="", help="default: what answers")
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")


def run(args: argparse.Namespace) -> int:
    """Ask every host; 1 when one has another image, or does not tell."""
    subject = standing_subject(parse_subject(args.subject), args.line, args.base)
    identity, config = describe_subject(subject)
    print(f"{args.subject}: {'; '.join(identity.lines())}")
    good = True
    for host in args.hosts:
        try:
            found = _find(Runtime.on(host, args.runtime), identity, config, args.image)
        except OutsideTrouble as error:
            reasons = "; ".join([error.message, *error.details])
            print(f"{host}: unknown: {reasons}", flush=True)
            good = False
            continue
        if found is None:
            print(f"{host}: unknown: no image there has this content or name", flush=True)
            good = False
            continue
        relation = _relation(identity, found.identity)
        print(f"{host}: {_words(relation, identity, found.identity)}", flush=True)
        print(f"  {'; '.join(found.identity.lines())}; names {', '.join(found.names) or 'none'}")
        if relation not in _SAME:
            good = False
            for line in differences(config, found.config):
                print(f"  {line}")
    return 0 if good else 1


def _words(relation: Relation, one: Identity, other: Identity) -> str:
    if relation is Relation.SAME_CONTENT and one.config and other.config:
        return "same content, other image: equal fingerprint, other config digest"
    return relation.value


def _relation(one: Identity, other: Identity) -> Relation:
    """Compare, content first: a config's digest alone says nothing of what a runtime unpacked."""
    relation = compare(one, other)
    if relation is Relation.SAME_IMAGE and one.fingerprint != other.fingerprint:
        return Relation.DIFFERENT if other.fingerprint else Relation.UNKNOWN
    return relation


def _find(
    runtime: Runtime, identity: Identity, config: dict[str, object], name: str | None
) -> Inspected | None:
    """Return the image of a host: the named one, or the one of that content, or of that title."""
    if name:
        return runtime.inspect(name)[0]
    images = runtime.images()
    for image in images:
        if image.identity.fingerprint and image.identity.fingerprint == identity.fingerprint:
            return image
    title = Inspected(identity, (), config).title
    return next((image for image in images if title and image.title == title), None)
