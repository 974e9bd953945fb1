"""The graph of steps that a plan is, and the images that come of it.

Every step names exactly what it reads: parameters, locked files by sha256, and the steps before it.
An engine makes a content key of these, so a plan says everything about caching.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FileInput:
    """A locked file that a step reads: name for people, hex sha256, size in bytes if known."""

    name: str
    sha256: str
    size: int | None


@dataclass(frozen=True)
class Step:
    """One node of the graph.

    `program` is a key of steps.program.PROGRAMS, `params` JSON, `after` the ids of the steps whose
    outputs it reads, in the order in which the program sees them. `weight` is a guess at the bytes
    it works on, for the order of starting and for the space check; it is no part of any key.
    """

    id: str
    program: str
    params: Mapping[str, Any]
    files: Sequence[FileInput] = ()
    after: Sequence[str] = ()
    weight: int = 0


@dataclass(frozen=True)
class PlannedImage:
    """An image of the plan, or a stage that has none on this base.

    `layers` are the ids of its layer steps, lowest first. `gate` are the steps that must have
    passed before the image may be shown: its own audit. `state` is that of chain.Status; only
    "built" images have layers. `inputs` is the digest of all that the image is made of.
    """

    name: str
    tag: str
    title: str
    state: str
    parent: str
    reason: str = ""
    stage_step: str = ""
    layers: Sequence[str] = ()
    gate: Sequence[str] = ()
    inputs: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """Steps by id, every one after those that it reads, and the images that come of them."""

    steps: Mapping[str, Step]
    images: Sequence[PlannedImage]
