"""`release`: build, audit, push, smoke, tag, verify, in that order, as one command.

Each step is the verb of that name. What an earlier run has done is found again by its content, so a
release that was interrupted is finished by running it once more.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline import cli
from pipeline.chain import BASES
from pipeline.cli.smoke import (
    PROBES,
    add_run_arguments,
    hosts_of,
    print_verdict,
    teller,
)
from pipeline.cli.tag import add_move_arguments, move_from
from pipeline.errors import ChainError, UsageError
from pipeline.lock.table import replace_file
from pipeline.oci.references import Reference, parse_repository
from pipeline.oci.registry.client import Repository
from pipeline.project import Project
from pipeline.release.candidate import Candidate, load_candidate, required_probes
from pipeline.release.evidence import Kept, kept_report, read_documents
from pipeline.release.gate import CAPABILITY, judge
from pipeline.release.order import Order, one_at_a_time, refuse_unless_good
from pipeline.release.probefiles import ProbeFiles, read_probes
from pipeline.release.record import Drift, Evidence
from pipeline.release.runner import Orders, Target, smoke_hosts
from pipeline.release.tagging import folder_of, refusal, tag_candidate
from pipeline.release.tags import check_tags, proven_names
from pipeline.report.json import render
from pipeline.standing import planned_image

REPORT = "smoke.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the verb takes."""
    parser.epilog = (
        "example: sm121-chain release v8 registry.example.org/me/chain --host gb10-a --host gb10-b"
    )
    parser.add_argument("stage", metavar="STAGE", help="the stage to release")
    parser.add_argument("repository", metavar="REPOSITORY", help="where to: HOST/NAME, no tag")
    add_run_arguments(parser)
    add_move_arguments(parser)
    parser.add_argument(
        "--smoke-again",
        action="store_true",
        help="run the probes although an interrupted run of this release has a report that passes",
    )
    parser.add_argument(
        "--mount-from",
        action="append",
        default=[],
        metavar="REPOSITORY",
        help="as for push: a repository of the same registry that may have layers",
    )
    parser.add_argument("--line", default="", help="the lock: pins.LINE.toml (default: pins.toml)")
    parser.add_argument("--base", choices=BASES, default="wheels", help="what v1 starts from")
    parser.add_argument(
        "--jobs", default=str(os.cpu_count() or 1), metavar="N", help="as for build"
    )
    parser.add_argument("--offline", action="store_true", help="as for build: fetch nothing")
    parser.add_argument("--mirror", metavar="REF", help="as for build")
    parser.add_argument("--debian-mirror", metavar="URL", help="as for build")
    parser.add_argument("-q", "--quiet", action="store_true", help="the summary only")


def run(args: argparse.Namespace) -> int:
    """Release; 1 when a step refuses. The last line of stdout is how to pull the image."""
    target = parse_repository(args.repository)
    leave = move_from(args, args.repository)
    hosts = hosts_of(args)
    probes = read_probes(PROBES)
    project = Project(Path.cwd(), args.line)
    _, planned = planned_image(project, args.base, args.stage)
    if not required_probes(project, planned.name):
        raise UsageError(
            f"{planned.name} requires no probe, so nothing can prove it",
            hint="list them in `smoke` of its TOML (docs/stages.md)",
        )
    say = _silent if args.quiet else _tell
    folder = args.state / planned.tag

    def waiting() -> None:
        _tell(f"waiting for another release of {planned.tag}")

    order = Order(say)
    with one_at_a_time(folder, waiting):
        try:
            references = _Release(args, project, target, leave, hosts, probes, folder, order).run()
        finally:
            for line in order.summary():
                _tell(line)
    for reference in references:
        print(f"{reference.at(tag=reference.tag)} {reference.digest}")
    print(f"docker pull {target.at(digest=references[0].digest)}")
    return 0


class _Release:
    """One release: the steps, and what they hand on to each other."""

    def __init__(
        self,
        args: argparse.Namespace,
        project: Project,
        target: Reference,
        leave: str,
        hosts: Sequence[str],
        probes: ProbeFiles,
        folder: Path,
        order: Order,
    ):
        self._args, self._project, self._target = args, project, target
        self._leave, self._hosts, self._probes, self._order = leave, hosts, probes, order
        self._dist = folder / "dist"
        self._repository = Repository(target, push=True)
        self._kept: Kept | None = None
        self._common = ["--line", args.line, "--base", args.base]

    def run(self) -> list[Reference]:
        """Run every step; return the tags, each with the digest."""
        order = self._order
        candidate = order.run("build", self._build)
        subject = f"oci:{self._dist}:{candidate.planned.tag}"
        against = ["--against", candidate.planned.name]
        order.run("audit", lambda: self._verb("audit", subject, *against, *self._common))
        order.run("push", lambda: self._push(candidate, subject))
        evidence = order.run("smoke", lambda: self._smoke(candidate))
        if self._kept:
            order.found("smoke", str(self._kept))
        references = order.run("tag", lambda: self._tag(candidate, evidence))
        digest = candidate.image.digest
        name = str(references[0])
        stage = ["--stage", candidate.planned.name, "--dist", str(self._dist)]
        order.run("verify", lambda: self._verb("verify", name, *stage, *self._common))
        return [reference.at(tag=reference.tag, digest=digest) for reference in references]

    def _verb(self, verb: str, *arguments: str) -> None:
        quiet = ["-q"] if self._args.quiet else []
        with contextlib.redirect_stdout(sys.stderr):
            refuse_unless_good(verb, cli.call(verb, *arguments, *quiet))

    def _build(self) -> Candidate:
        args = self._args
        options = ["--to", args.stage, "--out", str(self._dist), "--jobs", args.jobs]
        options += ["--offline"] if args.offline else []
        options += ["--mirror", args.mirror] if args.mirror else []
        options += ["--debian-mirror", args.debian_mirror] if args.debian_mirror else []
        self._verb("build", *options, *self._common)
        return load_candidate(self._project, args.base, args.stage, self._dist)

    def _push(self, candidate: Candidate, subject: str) -> None:
        # Before hours go by: what the tags mean now decides whether there is a release at all.
        names = proven_names(candidate.planned.tag, candidate.image.digest)
        check_tags(self._repository, names, candidate.image.digest, self._leave)
        sources = [word for one in self._args.mount_from for word in ("--mount-from", one)]
        self._verb("push", subject, str(self._target), *sources, *self._common)

    def _smoke(self, candidate: Candidate) -> Evidence:
        path = folder_of(self._args.state, candidate) / REPORT
        if not self._args.smoke_again:
            hosts, probes = self._hosts, self._probes.digest
            self._kept = kept_report(path, candidate.wanted, hosts, probes)
        if self._kept is None:
            image = candidate.image
            name = str(self._target.at(digest=image.digest))
            report = smoke_hosts(
                Target(f"docker://{name}", image.digest, image.fingerprint, name),
                self._hosts,
                self._args.runtime,
                self._probes,
                Orders(
                    candidate.wanted.probes,
                    ".".join(map(str, CAPABILITY)),
                    self._args.time_limit,
                ),
                teller(quiet=self._args.quiet),
            )
            refused = judge([report], candidate.wanted, time.time())
            path.parent.mkdir(parents=True, exist_ok=True)
            # In its place whatever lies there: a pipe would be written to, and waited for.
            replace_file(path, render(report.to_json(passed=not refused)))
            if refused:
                raise refusal(refused)
            print_verdict(report, refused)
        return Evidence(read_documents([path]))

    def _tag(self, candidate: Candidate, evidence: Evidence) -> list[Reference]:
        folder = folder_of(self._args.state, candidate)
        tagged = tag_candidate(
            candidate,
            self._repository,
            evidence,
            folder,
            move_from=self._leave,
            previous=self._leave,
            drift=self._drift(candidate, self._leave) if self._leave else None,
            tell=_silent if self._args.quiet else _tell,
        )
        _tell(f"record: {folder}/record.md, record.json")
        return tagged

    def _drift(self, candidate: Candidate, previous: str) -> Drift:
        """Compare with the last release. That it cannot be had is told, and stops no release."""
        there = f"docker://{self._target.at(digest=previous)}"
        here = f"oci:{self._dist}:{candidate.planned.tag}"
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                cli.call("drift", there, here, "--format", "markdown", *self._common)
        except ChainError as error:
            return Drift(previous, f"Not compared: {error.message}.")
        return Drift(previous, out.getvalue())


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _silent(line: str) -> None:
    """Say nothing."""
