"""Step `stage`: plan what a stage does to its parent, verify all of it, and write the order.

params: stage, title, base, epoch, target, known, removed, installed, patches, payloads, env,
labels, checks (see pipeline.plan). Steps: the parent's layers, lowest first. Facts: patches (their
outcomes), files (patched, with sha256 before and after), env (what follows from the content).

All or nothing: every fault of every patch and check is in one Refusal, and nothing is written then.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.errors import Refusal
from pipeline.oci.image import canonical
from pipeline.steps.checks import failed_checks
from pipeline.steps.draft import Draft
from pipeline.steps.jit import jit_environment, jit_sources
from pipeline.steps.layers import view_of
from pipeline.steps.noted import keep_notes, read_notes
from pipeline.steps.params import known_of, target_of
from pipeline.steps.patched import apply_patches
from pipeline.steps.payloads import payload_data
from pipeline.steps.program import Inputs, Result

FACTS = "usr/share/sm121-chain/stages"


def run(inputs: Inputs, out: Path) -> Result:
    """Write order.json and the contents that it names."""
    params = inputs.params
    target = target_of(inputs)
    draft = Draft(
        view_of(params["stage"], inputs.steps, inputs),
        target,
        known_of(inputs),
        removed=params["removed"],
        installed=[(wheel, inputs.file(wheel["sha256"])) for wheel in params["installed"]],
    )
    notes = read_notes(inputs.kept, params["stage"])
    patches = apply_patches(draft, params["patches"], notes)
    keep_notes(inputs.kept, params["stage"], notes)
    for payload in params["payloads"]:
        draft.put(payload["destination"], payload_data(inputs, payload), payload["mode"])
    if draft.is_empty and not (params["env"] or params["labels"]):
        raise Refusal(
            f"{params['stage']} is to be built but would change nothing",
            details=[f"patch {patch['name']}: {patch['outcome']}" for patch in patches],
            hint="give it a status of held or upstream, with the reason",
        )
    failures = failed_checks(params["checks"], draft)
    if failures:
        raise Refusal(
            f"{params['stage']}: {len(failures)} of {len(params['checks'])} checks failed",
            details=failures,
            hint="the stage does not do what its file says; nothing was written",
        )
    facts = {
        "files": [
            {"path": path, "before": before, "after": after}
            for path, (before, after) in sorted(draft.patched.items())
        ],
        "patches": patches,
    }
    draft.put(f"{FACTS}/{params['stage']}.json", _facts_file(params, facts), 0o644)
    order, contents = draft.order()
    order.write(out, contents)
    sources = jit_sources(target.site_packages)
    before, after = draft.parent_hashes(sources), draft.merged_hashes(sources)
    env = jit_environment(after, target.site_packages) if after != before else {}
    return Result({**facts, "env": env})


def _facts_file(params: Mapping[str, Any], facts: Mapping[str, Any]) -> bytes:
    """Return what a running container can say of this stage: its own inputs and their effect."""
    document = {
        "format": 1,
        "stage": params["stage"],
        "title": params["title"],
        "base": params["base"],
        "removed": [f"{wheel['name']}=={wheel['version']}" for wheel in params["removed"]],
        "installed": params["installed"],
        "payloads": [
            {"path": payload["destination"], "sha256": payload["sha256"]}
            for payload in params["payloads"]
        ],
        **facts,
    }
    return canonical(document) + b"\n"
