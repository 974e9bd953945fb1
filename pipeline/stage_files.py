"""The TOML of stages: `stages/vNN-subject.toml`, one file a stage, and the graph that they make.

docs/stages.md says what one may hold. Reading is strict, and every fault of every file is reported
at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.chain import ROOT, Chain, Check, Stage, Status
from pipeline.errors import Fault, FaultyFile, UsageError
from pipeline.payloads import read_payload
from pipeline.stage_shape import CHECKS, shape_faults
from pipeline.toml import parse_file


def load_chain(directory: Path) -> Chain:
    """Read `directory`/*.toml. Raises FaultyFile with every fault, UsageError without stages."""
    files = sorted(directory.glob("*.toml"))
    if not files:
        raise UsageError(f"{directory}: no stages", hint="a stage is a TOML file in this directory")
    faults: list[Fault] = []
    stages: list[Stage] = []
    for file in files:
        stage = _read_stage(file, faults)
        if stage is not None:
            stages.append(stage)
    # The graph is judged by what could be read, so that one run reports all.
    faults += _graph_faults(stages, complete=len(stages) == len(files))
    if faults:
        raise FaultyFile(str(directory), faults)
    return Chain(_ordered(stages))


def _read_stage(file: Path, faults: list[Fault]) -> Stage | None:
    try:
        data = parse_file(file)
    except FaultyFile as faulty:
        faults += [Fault(f"{file.name}: {f.where}".rstrip(": "), f.problem) for f in faulty.faults]
        return None
    except OSError as error:
        faults.append(Fault(file.name, f"cannot be read: {error.strerror}"))
        return None
    found = [Fault(f"{file.name}: {where}", problem) for where, problem in shape_faults(data)]
    if found:
        faults += found
        return None
    payloads = []
    for number, item in enumerate(data.get("files", ())):
        try:
            payloads.append(read_payload(item, file.parent))
        except ValueError as error:
            faults.append(Fault(f"{file.name}: files[{number}].source", str(error)))
    return Stage(
        name=data["name"],
        title=data["title"],
        why=data["why"],
        parent=data["parent"],
        tag=data["tag"],
        file=file.name,
        environment=data.get("environment", ""),
        patches=tuple(data.get("patches", ())),
        files=tuple(payloads),
        env=data.get("env", {}),
        labels=data.get("labels", {}),
        checks=tuple(
            Check(item["kind"], {k: item[k] for k in CHECKS[item["kind"]]}, item.get("base", ""))
            for item in data.get("checks", ())
        ),
        status={
            base: Status(value["state"], value.get("reason", ""))
            for base, value in data.get("status", {}).items()
        },
        smoke=tuple(data.get("smoke", ())),
    )


def _graph_faults(stages: Sequence[Stage], *, complete: bool) -> Iterator[Fault]:
    names: dict[str, Stage] = {}
    tags: dict[str, Stage] = {}
    for stage in stages:
        first = names.setdefault(stage.name, stage)
        if first is not stage:
            yield Fault(f"{stage.file}: name", f"{stage.name!r} is also {first.file}'s")
        first = tags.setdefault(stage.tag, stage)
        if first is not stage:
            yield Fault(f"{stage.file}: tag", f"{stage.tag!r} is also {first.file}'s")
    for stage in stages:
        seen = [stage.name]
        parent = stage.parent
        while parent != ROOT:
            if parent in seen:
                if parent == stage.name:
                    cycle = " -> ".join([*seen, parent])
                    yield Fault(f"{stage.file}: parent", f"a cycle: {cycle}")
                break
            if parent not in names:
                if parent == stage.parent and complete:
                    yield Fault(f"{stage.file}: parent", f"no stage {parent!r}")
                break
            seen.append(parent)
            parent = names[parent].parent


def _ordered(stages: Sequence[Stage]) -> dict[str, Stage]:
    by_number = sorted(stages, key=lambda stage: int(stage.name[1:]))
    ordered: dict[str, Stage] = {}
    while len(ordered) < len(by_number):
        for stage in by_number:
            if stage.name not in ordered and (stage.parent == ROOT or stage.parent in ordered):
                ordered[stage.name] = stage
    return ordered
