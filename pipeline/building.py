"""A build: plan, files, engine, and the images that come out, each shown when it is proven."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from pipeline.audit.findings import ERROR
from pipeline.chain import BUILT, ROOT
from pipeline.engines.schedule import Bring, Engine, Listener, nothing
from pipeline.errors import NoEngine, Refusal
from pipeline.graph import Plan, PlannedImage, Step
from pipeline.lock.model import Base, Lock
from pipeline.oci.image import Image, Runtime, build_image, rfc3339, runtime_of
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.layout import LayoutWriter
from pipeline.oci.reading import keep_index
from pipeline.steps.layers import INDEX, blob_of, layer_of
from pipeline.steps.program import StepOutput

_VENDOR = "dev.sm121-chain"


@dataclass(frozen=True)
class Built:
    """One line of a build's result: an image, or a stage that stands for its parent's."""

    planned: PlannedImage
    image: Image | None


class Progress(Protocol):
    """How a build tells what it does."""

    def started(self, step: Step) -> None: ...
    def finished(self, step: Step, output: StepOutput, *, cached: bool) -> None: ...


@dataclass
class Assembly(Listener):
    """Turns finished steps into images in `layout`, in the plan's order.

    An image is put there once its layers are made, its audit has no error, and so for everything
    that it stands on. `show` is called for each image, in order. `file` maps the hex sha256 of a
    locked file to its place. `vendor` is the base, where that is an image: it is shown as it came,
    with those of its layers that are here, and `bring` brings others that a step must read.
    `kept` is a directory of layer indexes: those of its images are put there, so that whoever looks
    into one of them, here or in a registry, need not read its layers first. `dropped` are the tags
    of earlier builds that this one did not make, which are no longer in the layout.
    """

    plan: Plan
    lock: Lock
    layout: LayoutWriter
    progress: Progress
    show: Callable[[Built], None]
    base: Base
    file: Callable[[str], Path]
    vendor: ImageFile | None = None
    bring: Bring = nothing
    kept: Path | None = None
    outputs: dict[str, StepOutput] = field(default_factory=dict)
    built: dict[str, Built] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    _runtimes: dict[str, Runtime] = field(default_factory=dict)

    def started(self, step: Step) -> None:
        """Pass on to the progress display."""
        self.progress.started(step)

    def finished(self, step: Step, output: StepOutput, *, cached: bool) -> None:
        """Take an output. Raises Refusal when it is an audit that found an error."""
        self.progress.finished(step, output, cached=cached)
        self.outputs[step.id] = output
        self._publish()
        if step.program == "audit":
            refuse_errors(step, output)

    def _publish(self) -> None:
        for planned in self.plan.images:
            if planned.name in self.built:
                continue
            needed = (*planned.layers, *planned.gate)
            if planned.parent and planned.parent not in self.built:
                return
            if not all(name in self.outputs for name in needed):
                return
            if any(error_findings(self.outputs[name]) for name in planned.gate):
                return
            built = Built(planned, self._image(planned) if planned.state == BUILT else None)
            self.built[planned.name] = built
            self.show(built)

    def _image(self, planned: PlannedImage) -> Image:
        runtime = self._runtime(planned)
        self._runtimes[planned.name] = runtime
        outputs = [self.outputs[name] for name in planned.layers]
        layers = [layer_of(output) for output in outputs]
        if self.vendor is not None and planned.name == ROOT:
            image = self.vendor.as_it_is
        else:
            image = build_image(
                layers,
                runtime,
                epoch=self.lock.epoch,
                architecture=self.base.target.architecture,
                annotations=self._annotations(planned),
                below=self.vendor.below if self.vendor else None,
            )
        blobs = [blob_of(output, self.file) for output in outputs]
        if self.kept is not None:
            for layer, output in zip(layers, outputs, strict=True):
                index = output.directory / INDEX
                if index.is_file():  # an engine elsewhere keeps it there
                    keep_index(layer.digest, index.read_bytes, self.kept)
        # image-layout.md lets a layout leave blobs to a store outside: here, the base's registry.
        here = [
            (layer, blob)
            for layer, blob in zip(layers, blobs, strict=True)
            if isinstance(blob, Path)
        ]
        self.layout.put(planned.tag, image, here)
        return image

    def _runtime(self, planned: PlannedImage) -> Runtime:
        if planned.name == ROOT:
            if self.vendor is not None:
                return runtime_of(self.vendor.document)
            facts = self.outputs[planned.stage_step].facts
            below = runtime_of({"config": facts["runtime"]})
            env = {**below.env, **facts["env"]}
        else:
            facts = self.outputs[planned.stage_step].facts
            below = self._runtimes[planned.parent]
            env = {**below.env, **facts["env"], **planned.env}
        labels = {
            **below.labels,
            **planned.labels,
            "org.opencontainers.image.title": planned.tag,
            "org.opencontainers.image.version": planned.name,
            "org.opencontainers.image.created": rfc3339(self.lock.epoch),
        }
        return replace(below, env=env, labels=labels)

    def _annotations(self, planned: PlannedImage) -> dict[str, str]:
        annotations = {
            "org.opencontainers.image.created": rfc3339(self.lock.epoch),
            "org.opencontainers.image.title": planned.tag,
            "org.opencontainers.image.description": planned.title,
            f"{_VENDOR}.inputs": planned.inputs,
        }
        if planned.parent:
            base = self.built[ROOT].image
            assert base is not None
            name = self.base.image or self.built[ROOT].planned.tag
            annotations["org.opencontainers.image.base.name"] = name
            annotations["org.opencontainers.image.base.digest"] = base.digest
        return annotations


def error_findings(output: StepOutput) -> list[Mapping[str, str]]:
    """Return the findings of an audit step that have severity error."""
    findings: Sequence[Mapping[str, str]] = output.facts["findings"]
    return [finding for finding in findings if finding["severity"] == ERROR]


def refuse_errors(step: Step, output: StepOutput) -> None:
    """Raise Refusal, with every finding of severity error, if an audit step has any."""
    errors = error_findings(output)
    if errors:
        name = step.params["image"]
        raise Refusal(
            f"the audit of {name} found {len(errors)} error{'s' if len(errors) != 1 else ''}",
            details=[
                f"{finding['rule']}: {finding['subject']}: {finding['message']}"
                + (f"\n    fix: {finding['fix']}" if finding.get("fix") else "")
                for finding in errors
            ],
            hint="nothing of this stage was written; stages before it are in the output directory",
        )


def build(plan: Plan, engine: Engine, assembly: Assembly) -> Mapping[str, Built]:
    """Run the plan. The layout ends with the images of this run only, whatever happens in it.

    Where no engine takes us in there is no run, and the layout stays as it is.
    """
    began = True
    try:
        engine.run(plan, assembly.file, assembly, assembly.bring)
    except NoEngine:
        began = False
        raise
    finally:
        if began:
            assembly.dropped = assembly.layout.keep_only(
                built.planned.tag for built in assembly.built.values() if built.image
            )
    return assembly.built
