"""The two sides of a comparison: what an image, a tree or a lock holds, read once.

Images of one line share nearly all of their layers, so what is known of one side is used for the
other: indexes, the merged tree of the common layers, parsed metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from pipeline.audit.environment import image_environment
from pipeline.audit.expectation import Expectation, LedgerEntry, marker_environment
from pipeline.audit.requirements import Requirements
from pipeline.drift.images import IMAGE, LOCK, TREE, Image, Layer
from pipeline.inventory.debian import Package, read_owners, read_packages
from pipeline.inventory.distributions import (
    Distribution,
    Inventory,
    Memo,
    read_inventory,
)
from pipeline.inventory.facts import read_metadata
from pipeline.inventory.infos import find_sites
from pipeline.oci.identity import identify
from pipeline.oci.tree import Tree
from pipeline.oci.view import ImageView, LayersView

_STAGE = re.compile(r"sm121-chain (?P<stage>[A-Za-z0-9][A-Za-z0-9._-]*): ")
_LABELS = "org.opencontainers.image."
_MAX_TREES = 4  # merged trees that stay at hand: two images, what they share, a parent


@dataclass
class Shared:
    """What the sides of a comparison, or the images of a history, have in common."""

    cache: Path | None = None
    metadata: Memo = field(default_factory=Memo)
    markers: dict[tuple[tuple[str, str], ...], dict[tuple[str, str], bool | None]] = field(
        default_factory=dict
    )
    _trees: dict[tuple[str, ...], Tree] = field(default_factory=dict)

    def merged(self, view: LayersView, beside: Sequence[LayersView] = ()) -> LayersView:
        """Return a view whose tree stands on a tree that is at hand.

        What the layers have in common with those `beside` is merged first, and stays at hand.
        """
        key = tuple(layer.diff_id for layer in view.layers)
        cuts = {_common(key, tuple(layer.diff_id for layer in one.layers)) for one in beside}
        for cut in sorted({*cuts, len(key)} - {0}):
            self._merge(view, key[:cut])
        return replace(view, merged=self._trees[key]) if key else view

    def _merge(self, view: LayersView, key: tuple[str, ...]) -> None:
        if key in self._trees:
            self._trees[key] = self._trees.pop(key)  # the latest is the last to go
            return
        below = max((one for one in self._trees if key[: len(one)] == one), key=len, default=())
        entries = [view.blobs[at][1].entries for at in range(len(below), len(key))]
        self._trees[key] = Tree.merge(entries, self._trees.get(below))
        while len(self._trees) > _MAX_TREES:
            del self._trees[next(iter(self._trees))]


@dataclass(frozen=True)
class Side:
    """One side. `view` is None for a lock. `ledger` are the overrides that hold for it, None where
    there is no lock that says so; `extras` those that the lock asks for, by distribution;
    `variables` those that stages of its line set: (value, what sets it) by name."""

    image: Image
    inventory: Inventory
    environment: Mapping[str, str]
    shared: Shared
    view: ImageView | None = None
    ledger: tuple[LedgerEntry, ...] | None = None
    extras: Mapping[str, frozenset[str]] = field(default_factory=dict)
    variables: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @cached_property
    def requirements(self) -> Requirements:
        """What its distributions require of each other."""
        expectation = Expectation(self.environment, ledger=self.ledger or (), extras=self.extras)
        answers = self.shared.markers.setdefault(tuple(sorted(self.environment.items())), {})
        return Requirements(self.inventory, expectation, answers)

    @cached_property
    def packages(self) -> Mapping[str, Package]:
        """Its Debian packages by name."""
        return read_packages(self.view) if self.view is not None else {}

    @cached_property
    def debian_owners(self) -> Mapping[str, str]:
        """The Debian package of every file that dpkg knows."""
        return read_owners(self.view, self.packages) if self.view is not None else {}

    @property
    def tree(self) -> Tree:
        """The merged tree; an empty one for a lock."""
        return self.view.tree if self.view is not None else _NOTHING

    @property
    def config(self) -> Mapping[str, Any]:
        """The image's config, {} without."""
        return self.view.config if self.view is not None else {}

    def layer(self, number: int) -> Layer | None:
        """Return a layer by number, None where there are none."""
        layers = self.image.layers
        return layers[number] if 0 <= number < len(layers) else None


_NOTHING = Tree({}, 0)


def image_side(
    subject: str, view: ImageView, shared: Shared, beside: Sequence[ImageView] = ()
) -> Side:
    """Read a side from an image or a tree; `beside` are views that it will be compared with."""
    if isinstance(view, LayersView):
        view = shared.merged(view, [one for one in beside if isinstance(one, LayersView)])
    read_metadata(view, shared.cache, shared.metadata)
    sites = find_sites(view.tree)
    inventory = read_inventory(view, sites, memo=shared.metadata)
    image = _described(subject, view, len(inventory.distributions))
    return Side(image, inventory, image_environment(view, sites), shared, view)


def lock_side(subject: str, label: str, pins: Mapping[str, str], shared: Shared) -> Side:
    """Make a side of what a lock selects, as versions by name."""
    inventory = Inventory(
        (),
        tuple(
            Distribution(canonicalize_name(name), name, version, "", "", 0)
            for name, version in sorted(pins.items())
        ),
    )
    image = Image(subject, LOCK, version=label, distributions=len(pins))
    return Side(image, inventory, marker_environment("3.11", "aarch64"), shared)


def _described(subject: str, view: ImageView, distributions: int) -> Image:
    if not isinstance(view, LayersView):
        return Image(subject, TREE, distributions=distributions)
    identity = identify(view)
    process = view.config.get("config")
    labels = process.get("Labels") if isinstance(process, dict) else None
    texts = labels if isinstance(labels, dict) else {}
    return Image(
        subject=subject,
        kind=IMAGE,
        digest=identity.manifest,
        config=identity.config,
        fingerprint=identity.fingerprint,
        title=str(texts.get(f"{_LABELS}title") or ""),
        version=str(texts.get(f"{_LABELS}version") or ""),
        architecture=str(view.config.get("architecture") or ""),
        base_name=str(texts.get(f"{_LABELS}base.name") or ""),
        base_digest=str(texts.get(f"{_LABELS}base.digest") or ""),
        layers=tuple(
            Layer(
                number,
                layer.digest,
                layer.diff_id,
                view.blobs[number][1].size,
                layer.created_by,
                match["stage"] if (match := _STAGE.match(layer.created_by)) else "",
            )
            for number, layer in enumerate(view.layers)
        ),
        distributions=distributions,
    )


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """How many members two sequences have in common at their start."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
