"""Lock and chain to a plan: which steps, with which inputs, for which images. Pure.

Nothing here needs a network or an engine, and nothing is run: `show` prints what `build` would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.base.image import BaseImage
from pipeline.chain import BASE_TAG, BUILT, HELD, ROOT, Chain, Stage
from pipeline.errors import Refusal, UsageError
from pipeline.expectations import expectation_params, known_params
from pipeline.graph import FileInput, Plan, PlannedImage, Step
from pipeline.oci.image import canonical, sha256
from pipeline.patching.model import Patch
from pipeline.patching.wire import patch_to_json
from pipeline.payloads import artifacts_of, payload_params
from pipeline.pins import Base, Lock, LockedWheel
from pipeline.plan_base import (
    CONFLICTS,
    INDEX,
    file_inputs,
    held_by,
    image_steps,
    wheel_params,
    wheel_steps,
)
from pipeline.wheels.known import OF_WHEELS


@dataclass(frozen=True)
class Delta:
    """What an environment changes: distributions that go and wheels that come, sorted by name.

    A distribution at another version, or by another file, is in both.
    """

    removed: Sequence[LockedWheel]
    installed: Sequence[LockedWheel]

    def __bool__(self) -> bool:
        return bool(self.removed or self.installed)


def delta(before: Sequence[LockedWheel], after: Sequence[LockedWheel]) -> Delta:
    """Return what must be removed and installed to get from one selection to another."""
    old = {(wheel.name, wheel.sha256) for wheel in before}
    new = {(wheel.name, wheel.sha256) for wheel in after}
    return Delta(
        removed=tuple(wheel for wheel in before if (wheel.name, wheel.sha256) not in new),
        installed=tuple(wheel for wheel in after if (wheel.name, wheel.sha256) not in old),
    )


def make_plan(
    lock: Lock,
    chain: Chain,
    patches: Mapping[str, Patch],
    *,
    base: str,
    to: str | None = None,
    vendor: BaseImage | None = None,
) -> Plan:
    """Plan the images of a base and of the stages up to `to` (its path only), or of all stages.

    `vendor` is what is known of a base that is an image; without it such a plan shows what changes,
    but has no layers and cannot be run.

    Raises UsageError for a stage, patch or base that is not there, Refusal for a held stage that
    would change something and for a built one that would not.
    """
    stages = chain.path(to) if to is not None else tuple(chain)
    check_references(lock, stages, patches, base)
    planner = _Planner(lock, chain, patches, base, vendor)
    planner.add_base()
    for stage in stages:
        planner.add_stage(stage)
    return Plan(planner.steps, planner.images)


def check_references(
    lock: Lock, stages: Sequence[Stage], patches: Mapping[str, Patch], base: str
) -> None:
    """Raise UsageError, with every fault, when stages name patches or groups that are not there."""
    faults = []
    for stage in stages:
        faults += [
            f"{stage.file}: patches: no patch {name!r}"
            for name in stage.patches
            if name not in patches
        ]
        if stage.environment and stage.environment not in lock.groups:
            faults.append(f"{stage.file}: environment: the lock has no group {stage.environment!r}")
        faults += [
            f"{stage.file}: files: the lock has no artifact {'=='.join(payload.wheel)}"
            for payload in stage.files_on(base)
            if payload.member and lock.artifact(*payload.wheel) is None
        ]
    if faults:
        raise UsageError(
            "stages name what is not there",
            details=faults,
            hint=f"patches are {', '.join(sorted(patches))}; groups are {', '.join(lock.groups)}",
        )


class _Planner:
    """Collects steps and images; stages come in after their parents."""

    def __init__(
        self,
        lock: Lock,
        chain: Chain,
        patches: Mapping[str, Patch],
        base: str,
        vendor: BaseImage | None,
    ):
        self.steps: dict[str, Step] = {}
        self.images: list[PlannedImage] = []
        self._lock = lock
        self._chain = chain
        self._patches = patches
        self._base: Base = lock.base(base)
        self._bytes = {"epoch": lock.epoch, "level": lock.zstd_level}
        self._target = self._base.target.to_json()
        # What only an audit tolerates is no input of a layer: it would make all of them anew.
        self._known = [known_params(one) for one in lock.known if one.rule in OF_WHEELS]
        self._by_name: dict[str, PlannedImage] = {}
        self._vendor = vendor
        self._blobs: tuple[FileInput, ...] = ()  # of a base image: what steps read its files from

    def _add(self, step: Step) -> str:
        self.steps[step.id] = step
        return step.id

    def add_base(self) -> None:
        """Plan the base: an image by digest, or one that is made of Debian and wheels."""
        base = self._base
        if base.image:
            steps = image_steps(self._vendor.image) if self._vendor else []
        else:
            wheels = self._lock.select(base.name)
            steps = wheel_steps(base, wheels, self._bytes, self._target, self._known)
        self.steps.update((step.id, step) for step in steps)
        layers = tuple(step.id for step in steps if step.program != CONFLICTS)
        self._blobs = tuple(file for step in steps if step.program == INDEX for file in step.files)
        audit = self._audit(ROOT, layers, self._select(()), (), parent="")
        self._put(
            PlannedImage(
                name=ROOT,
                tag=BASE_TAG,
                title=f"base {base.name}",
                state=BUILT,
                parent="",
                stage_step=layers[-1] if layers and not base.image else "",
                layers=layers,
                gate=(audit,),
                inputs=base.digest or self._digest("", [self.steps[layer] for layer in layers]),
            )
        )

    def _select(self, groups: Sequence[str]) -> tuple[LockedWheel, ...]:
        """Return every distribution that an image of these groups holds."""
        inventory = self._vendor.inventory if self._vendor else self._base.inventory
        return held_by(self._lock, self._base, groups, inventory)

    def add_stage(self, stage: Stage) -> None:
        status = stage.on(self._base.name)
        parent = self._by_name[self._chain.built_ancestor(stage.name, self._base.name)]
        before = self._select(self._chain.groups(parent.name))
        after = self._select(self._chain.groups(stage.name))
        change = delta(before, after)
        if status.state != BUILT:
            if status.state == HELD and change:
                raise Refusal(
                    f"{stage.name} is held on base {self._base.name}, but the lock changes it",
                    details=_moves(change),
                    hint=f"build it: remove status.{self._base.name} from {stage.file}",
                )
            self._put_unbuilt(stage, parent)
            return
        payloads = stage.files_on(self._base.name)
        if not (change or stage.patches or payloads or stage.env or stage.labels):
            raise Refusal(
                f"{stage.name} is to be built on base {self._base.name} but changes nothing",
                hint=f"say held and why in status.{self._base.name} of {stage.file}",
            )
        patches = [self._patches[name] for name in stage.patches]
        work = self._add(
            Step(
                f"{stage.name}/plan",
                "stage",
                {
                    "epoch": self._lock.epoch,
                    "stage": stage.name,
                    "title": stage.title,
                    "base": self._base.name,
                    "target": self._target,
                    "known": self._known,
                    "removed": wheel_params(change.removed),
                    "installed": wheel_params(change.installed),
                    "patches": [patch_to_json(patch) for patch in patches],
                    "payloads": [payload_params(p, self._lock) for p in payloads],
                    "env": dict(stage.env),
                    "labels": dict(stage.labels),
                    "checks": [
                        {"kind": check.kind, **check.arguments}
                        for check in stage.checks_on(self._base.name)
                    ],
                },
                (
                    *file_inputs(change.installed),
                    *file_inputs(artifacts_of(payloads, self._lock)),
                    *self._blobs,
                ),
                parent.layers,
            )
        )
        layer = self._add(
            Step(
                f"{stage.name}/layer",
                "stage-layer",
                {
                    **self._bytes,
                    "title": f"{stage.name}: {stage.title}",
                    "target": self._target,
                    "known": self._known,
                },
                file_inputs(change.installed),
                (work,),
                weight=sum(wheel.size or 0 for wheel in change.installed),
            )
        )
        layers = (*parent.layers, layer)
        audit = self._audit(stage.name, layers, after, self._patched(stage.name), parent.name)
        self._put(
            PlannedImage(
                name=stage.name,
                tag=stage.tag,
                title=stage.title,
                state=BUILT,
                parent=parent.name,
                stage_step=work,
                layers=layers,
                gate=(audit,),
                inputs=self._digest(parent.inputs, [self.steps[work]]),
                labels=stage.labels,
                env=stage.env,
            )
        )

    def _put_unbuilt(self, stage: Stage, parent: PlannedImage) -> None:
        status = stage.on(self._base.name)
        # A held stage is proven by the parent's own audit against what the lock says for it; the
        # lock's delta was just seen to be empty, so that audit is the parent's.
        self._put(
            PlannedImage(
                name=stage.name,
                tag=stage.tag,
                title=stage.title,
                state=status.state,
                parent=parent.name,
                reason=status.reason,
                gate=parent.gate,
                inputs=parent.inputs,
            )
        )

    def _put(self, image: PlannedImage) -> None:
        self.images.append(image)
        self._by_name[image.name] = image

    def _patched(self, name: str) -> list[Patch]:
        """Return the patches of a stage and of all built stages that it stands on."""
        return [
            self._patches[patch]
            for stage in self._chain.path(name)
            if stage.on(self._base.name).state == BUILT
            for patch in stage.patches
        ]

    def _audit(
        self,
        name: str,
        layers: Sequence[str],
        wheels: Sequence[LockedWheel],
        patches: Sequence[Patch],
        parent: str,
    ) -> str:
        groups = () if name == ROOT else self._chain.groups(name)
        stages = [self.steps[layer].after[0] for layer in layers if layer.endswith("/layer")]
        parents = self._by_name[parent].gate if parent else ()
        params = {
            "image": name,
            "layers": len(layers),
            "stages": len(stages),
            "expectation": expectation_params(
                self._lock, self._base, groups, wheels, patches, name
            ),
        }
        after = (*layers, *stages, *parents)
        return self._add(Step(f"{name}/audit", "audit", params, self._blobs, after))

    def _digest(self, parent: str, steps: Sequence[Step]) -> str:
        document = [
            parent,
            [[step.program, step.params, [file.sha256 for file in step.files]] for step in steps],
        ]
        return sha256(canonical(document))


def _moves(change: Delta) -> list[str]:
    old = {wheel.name: wheel.version for wheel in change.removed}
    new = {wheel.name: wheel.version for wheel in change.installed}
    return [
        f"{name} {old.get(name, 'absent')} -> {new.get(name, 'absent')}"
        for name in sorted(old | new)
    ]
