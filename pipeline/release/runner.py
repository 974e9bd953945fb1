"""Run the probes on every rank, side by side, and put what came of it into one report.

A rank that cannot be reached, has another image, hangs or says nothing sensible is a rank with a
problem, never a rank that is left out.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from pipeline.errors import FaultyFile, OutsideTrouble
from pipeline.hosts.container import INSIDE, Outcome, Task, listen, pull_image, run_container
from pipeline.hosts.inspection import Inspected
from pipeline.hosts.runtime import HERE, Runtime
from pipeline.release.probefiles import ProbeFiles
from pipeline.release.refusals import shown
from pipeline.release.report import Rank, RankImage, SmokeReport
from pipeline.release.run import parse_run

Tell = Callable[[str, str], None]


@dataclass(frozen=True)
class Target:
    """The image that is to be proven.

    `reference` is its name with a digest, by which a runtime can pull it; "" for an image that must
    be there already, and is found by its fingerprint.
    """

    name: str
    manifest: str
    fingerprint: str
    reference: str = ""


@dataclass(frozen=True)
class Orders:
    """What is to be run: the probes that must pass and those to run, on what, for how long.

    `seconds` is the limit of a whole rank. `server` is the URL of a server that the server probe
    asks, "" for none.
    """

    required: Sequence[str]
    capability: str
    seconds: float
    only: Sequence[str] = ()
    server: str = ""

    def arguments(self) -> list[str]:
        """Return the arguments of the driver (smoke/README.md)."""
        words = ["--require", ",".join(self.required), "--capability", self.capability]
        if self.only:
            words += ["--only", ",".join(self.only)]
        if self.server:
            words += ["--server", self.server]
        return words


def smoke_hosts(
    target: Target,
    hosts: Sequence[str],
    program: str,
    probes: ProbeFiles,
    orders: Orders,
    tell: Tell,
) -> SmokeReport:
    """Run the probes in the image on every host; rank n is the nth host.

    `tell` gets (host, line) of what is said there, from several threads. On KeyboardInterrupt every
    container is removed before it goes on its way.
    """
    stop = threading.Event()
    started = int(time.time())

    def one(number: int, host: str) -> Rank:
        return _rank(number, host, target, program, probes, orders, tell, stop)

    with ThreadPoolExecutor(len(hosts)) as pool:
        try:
            futures = [pool.submit(one, number, host) for number, host in enumerate(hosts)]
            ranks = [future.result() for future in futures]
        except BaseException:
            stop.set()
            raise
    return _report(target, probes, orders, started, ranks)


def smoke_here(
    name: str, python: str, probes: ProbeFiles, orders: Orders, tell: Tell
) -> SmokeReport:
    """Run the probes on this machine without a container; the report names no image."""
    started = int(time.time())
    command = [python, str(INSIDE), str(orders.seconds), *orders.arguments()]

    def start() -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )

    def say(line: str) -> None:
        tell(HERE, line)

    outcome = listen(start, probes.archive, orders.seconds, say, threading.Event())
    rank = _finished(Rank(0, HERE, "", RankImage(), started, started), outcome, say)
    return _report(Target(name, "", ""), probes, orders, started, [rank])


def _report(
    target: Target, probes: ProbeFiles, orders: Orders, started: int, ranks: Sequence[Rank]
) -> SmokeReport:
    return SmokeReport(
        subject=target.name,
        manifest=target.manifest,
        fingerprint=target.fingerprint,
        capability=orders.capability,
        required=tuple(orders.required),
        probes=probes.digest,
        started=started,
        finished=int(time.time()),
        ranks=ranks,
    )


def _rank(
    number: int,
    host: str,
    target: Target,
    program: str,
    probes: ProbeFiles,
    orders: Orders,
    tell: Tell,
    stop: threading.Event,
) -> Rank:
    now = int(time.time())
    rank = Rank(number, host, "", RankImage(), now, now)

    def say(line: str) -> None:
        tell(host, line)

    try:
        runtime = Runtime.on(host, program)
        rank = replace(rank, runtime=runtime.program)
        found = _find_image(runtime, target, say, stop)
        identity = found.identity
        rank = replace(
            rank,
            image=RankImage(
                target.reference, identity.config, identity.manifest, identity.fingerprint
            ),
        )
        if identity.fingerprint != target.fingerprint:
            shown = identity.fingerprint or "unknown"
            return _failed(rank, f"the image there has fingerprint {shown}: nothing was run", say)
        task = Task(
            image=found.handle or target.reference,
            files=probes.archive,
            arguments=(*orders.arguments(), "--workspace", "/tmp/jit"),
            seconds=orders.seconds,
            network="host" if orders.server else "none",
        )
        return _finished(rank, run_container(runtime, task, say, stop), say)
    except OutsideTrouble as error:
        return _failed(rank, "; ".join([error.message, *error.details]), say)


def _find_image(
    runtime: Runtime, target: Target, say: Callable[[str], None], stop: threading.Event
) -> Inspected:
    """Return the image as a runtime has it; by digest it is pulled where it is not there.

    Raises OutsideTrouble.
    """
    if target.reference:
        if not runtime.has(target.reference):
            say(f"pulling {target.reference}")
            pull_image(runtime, target.reference, say, stop)
        return runtime.inspect(target.reference)[0]
    for image in runtime.images():
        if image.identity.fingerprint and image.identity.fingerprint == target.fingerprint:
            return image
    raise runtime.lacks(target.name)


def _failed(rank: Rank, problem: str, say: Callable[[str], None]) -> Rank:
    say(problem)
    return replace(rank, problem=problem, finished=int(time.time()))


def _finished(rank: Rank, outcome: Outcome, say: Callable[[str], None]) -> Rank:
    rank = replace(rank, exit_status=outcome.status, finished=int(time.time()))
    if outcome.problem:
        return _failed(rank, outcome.problem, say)
    try:
        run = parse_run(outcome.stdout)
    except FaultyFile as error:
        said = f"; the last it said: {outcome.said}" if outcome.said else ""
        fault = f"{len(error.faults)} faults, first {error.faults[0]}"
        what = shown(fault) if outcome.stdout.strip() else "there is none"
        return _failed(rank, f"exit status {outcome.status}, no result: {what}{said}", say)
    return replace(rank, run=run)
