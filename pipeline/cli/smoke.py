"""`smoke`: the GPU probes in an image, on one or several hosts; the report is data."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.chain import BASES
from pipeline.errors import UsageError
from pipeline.hosts.runtime import HERE, RUNTIMES, check_host
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.reading import find_image
from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.remote import find_remote
from pipeline.pins import lock_path
from pipeline.project import Project
from pipeline.release.candidate import created, required_probes
from pipeline.release.gate import CAPABILITY, Wanted, judge, judge_rank
from pipeline.release.probefiles import read_probes
from pipeline.release.refusals import Refused
from pipeline.release.report import ASKED_CAPABILITY, SmokeReport
from pipeline.release.runner import Orders, Target, Tell, smoke_here, smoke_hosts
from pipeline.report.json import render
from pipeline.report.output import put
from pipeline.standing import standing_subject
from pipeline.subjects import Subject, parse_subject

PROBES = Path("smoke")
_STAGE = "org.opencontainers.image.version"
_SECONDS = 1800
_MOST_SECONDS = 7 * 86400
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_ASKED = ".".join(map(str, CAPABILITY))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = (
        "example: sm121-chain smoke docker://registry.example.org/me/chain@sha256:…"
        " --host gb10-a --host gb10-b --output smoke.json"
    )
    parser.add_argument(
        "subject",
        metavar="SUBJECT",
        help="docker://REF, which the hosts pull by digest; oci:DIR[:TAG] or a stage in dist/, "
        "which they must have (load); rootfs:/ for the machine itself, without a container",
    )
    add_run_arguments(parser)
    parser.add_argument(
        "--require",
        metavar="PROBE,…",
        help="probes that must pass (default: those that the stage's TOML requires)",
    )
    parser.add_argument(
        "--only", default="", metavar="PROBE,…", help="run these (default: the required ones)"
    )
    parser.add_argument(
        "--server", default="", metavar="URL", help="a server for the probe `server` to ask"
    )
    parser.add_argument(
        "--capability", default=_ASKED, metavar="N.N", help=f"of the GPU (default: {_ASKED})"
    )
    parser.add_argument(
        "--python", default="", metavar="P", help="for rootfs:/ (default: the python3 of PATH)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the report there (default: stdout)"
    )
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument("-q", "--quiet", action="store_true", help="nothing of what probes say")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where probes run and for how long; `release` takes the same."""
    parser.add_argument(
        "--host",
        action="append",
        metavar="H",
        help="a rank: a name for ssh, ssh://[USER@]HOST[:PORT] for a daemon there, or "
        f"{HERE!r} (the default); may be repeated",
    )
    parser.add_argument("--runtime", choices=RUNTIMES, default="", help="default: what answers")
    parser.add_argument(
        "--time-limit", type=float, default=_SECONDS, metavar="S",
        help=f"seconds for a rank's probes (default: {_SECONDS})",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Run the probes and write the report; 1 unless every required probe passed on every rank."""
    subject = parse_subject(args.subject)
    if not re.fullmatch(ASKED_CAPABILITY, args.capability, re.ASCII):
        raise UsageError(f"{args.capability!r} is no capability", hint=f"as {_ASKED}")
    major, minor = map(int, args.capability.split("."))
    capability = (major, minor)
    _check_names(args)
    probes = read_probes(PROBES)
    tell = teller(quiet=args.quiet)
    if subject.transport == "rootfs":
        report = _here(subject, args, tell)
        wanted = Wanted("", "", None, report.required, capability)
        refused = [no for rank in report.ranks for no in judge_rank(rank, wanted)]
        print("this report names no image: it passes no gate", file=sys.stderr)
    else:
        target, image = _target(subject, args)
        required = _required(args, image)
        orders = _orders(args, required)
        report = smoke_hosts(target, hosts_of(args), args.runtime, probes, orders, tell)
        wanted = Wanted(target.manifest, target.fingerprint, created(image), required, capability)
        refused = judge([report], wanted, time.time())
    write_report(report, refused, args.output)
    print_verdict(report, refused)
    return 1 if refused else 0


def teller(*, quiet: bool) -> Tell:
    """Return what shows a line of a host: whole lines, never mixed."""
    lock = threading.Lock()

    def tell(host: str, line: str) -> None:
        if not quiet:
            with lock:
                print(f"{host}: {line}", file=sys.stderr, flush=True)

    return tell


def hosts_of(args: argparse.Namespace) -> Sequence[str]:
    """Return the hosts of a call. Raises UsageError when one is named twice."""
    hosts: list[str] = args.host or [HERE]
    twice = {host for host in hosts if hosts.count(host) > 1}
    if twice:
        raise UsageError(f"--host {min(twice)} is given twice", hint="one host is one rank")
    for host in hosts:
        check_host(host)
    if not 0 < args.time_limit <= _MOST_SECONDS:  # NaN neither
        raise UsageError(
            f"--time-limit {args.time_limit:g} is no time for a run",
            hint=f"seconds, more than 0 and at most {_MOST_SECONDS}",
        )
    return hosts


def write_report(report: SmokeReport, refused: Sequence[Refused], output: Path | None) -> None:
    """Write a report to a file, whole or not at all, or to stdout."""
    put(render(report.to_json(passed=not refused)), output)


def print_verdict(report: SmokeReport, refused: Sequence[Refused]) -> None:
    """Say on stderr what came out, every reason with it."""
    ranks = f"{len(report.ranks)} rank{'s' if len(report.ranks) > 1 else ''}"
    seconds = report.finished - report.started
    if not refused:
        print(f"passed: {', '.join(report.required)} on {ranks}, {seconds} s", file=sys.stderr)
        return
    print(f"failed on {ranks}, {seconds} s:", file=sys.stderr)
    for one in refused:
        print(f"  {one}", file=sys.stderr)


def _check_names(args: argparse.Namespace) -> None:
    """Refuse what the driver, or the schema of the report, would refuse when hours are over."""
    for option, text in (("--require", args.require), ("--only", args.only)):
        wrong = [one for one in (text or "").split(",") if text and not _NAME.fullmatch(one)]
        if wrong:
            raise UsageError(f"{option}: {wrong[0]!r} is no name of a probe", hint="as nope_mla")
    if args.server and not args.server.startswith(("http://", "https://")):
        raise UsageError(f"--server {args.server!r} is no URL", hint="as http://127.0.0.1:8000")
    if args.output is not None and not args.output.parent.is_dir():
        raise UsageError(
            f"--output {args.output}: there is no directory {args.output.parent}",
            hint="make it first: the report is written when all is over",
        )


def _orders(args: argparse.Namespace, required: Sequence[str]) -> Orders:
    only = tuple(args.only.split(",")) if args.only else ()
    return Orders(required, args.capability, args.time_limit, only, args.server)


def _here(subject: Subject, args: argparse.Namespace, tell: Tell) -> SmokeReport:
    if subject.path != Path("/"):
        raise UsageError(
            f"{args.subject}: probes run in a container, or on the machine itself",
            hint="inside the image: smoke rootfs:/",
        )
    if args.host or args.runtime:
        raise UsageError("rootfs:/ is this machine: it has no --host and no --runtime")
    required = _required(args, None)
    # Not the python of the environment that this program runs in: it has no torch.
    own = Path(sys.prefix, "bin")
    places = [one for one in os.get_exec_path() if Path(one) != own]
    python = args.python or shutil.which("python3", path=os.pathsep.join(places)) or sys.executable
    return smoke_here(args.subject, python, read_probes(PROBES), _orders(args, required), tell)


def _target(subject: Subject, args: argparse.Namespace) -> tuple[Target, ImageFile]:
    if subject.transport == "docker":
        reference = parse_reference(subject.tag)
        image = find_remote(Repository(reference), reference)
        name = str(reference.at(digest=image.digest))
        return Target(f"docker://{name}", image.digest, image.fingerprint, name), image
    subject = standing_subject(subject, args.line, args.base)
    if subject.transport != "oci":
        raise UsageError(
            f"{args.subject}: an archive has no digest that a report could name",
            hint="name docker://REF, oci:DIR[:TAG], a stage, or rootfs:/",
        )
    image = find_image(subject.path, subject.tag)[0]
    return Target(args.subject, image.digest, image.fingerprint), image


def _required(args: argparse.Namespace, image: ImageFile | None) -> tuple[str, ...]:
    """Return the required probes: those asked for, or those of the stage that the image is."""
    if args.require:
        return tuple(dict.fromkeys(args.require.split(",")))
    labels = ((image.document if image else {}).get("config") or {}).get("Labels") or {}
    stage = str(labels.get(_STAGE, ""))
    if stage and lock_path(Path.cwd(), args.line).is_file():
        required = required_probes(Project(Path.cwd(), args.line), stage)
        if required:
            return required
    raise UsageError(
        f"{args.subject}: nothing says which probes it must pass",
        hint="name them: --require PROBE,…; or in `smoke` of the stage's TOML",
    )
