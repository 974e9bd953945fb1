"""Kernels that were compiled from other sources than those of the image."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import Finding
from pipeline.inventory.distributions import Distribution
from pipeline.inventory.jit import DISTRIBUTION, PREBUILT, SOURCES, cached, is_cached
from pipeline.oci.tree import Located


def jit(context: Context) -> Iterator[Finding]:
    """No cache holds kernels of sources that were edited after it was made.

    Layers and hashes tell, never times: an assembler's fixed mtime makes a new header look older
    than the `.so` of the old one.
    """
    owner = context.inventory.the_one(DISTRIBUTION)
    if owner is None:
        return
    edited = _edited(context, owner)
    if not edited:
        return
    newest = max(edited, key=lambda one: (one.layer, one.entry.path))
    name = newest.entry.path.rpartition("/")[2]
    prebuilt = f"{owner.site}/{PREBUILT}"
    if any(one.entry.has_content for one in context.view.tree.under(prebuilt)):
        yield context.finding(
            "stale-jit",
            PREBUILT.replace("_", "-"),
            f"its kernels are of upstream's sources, and {name} is edited: they win over it",
            path=prebuilt,
            layer=newest.layer,
            fix="remove the distribution in the stage that edits the sources",
        )
    stale: dict[str, int] = {}
    for one in cached(context.view.tree.select(is_cached)):
        layer = context.view.tree.nodes[one.path].layer
        # Another version's directory is never looked into.
        if one.version in (owner.version, "") and layer < newest.layer:
            stale[one.directory] = max(layer, stale.get(one.directory, 0))
    for directory in sorted(stale):
        yield context.finding(
            "stale-jit",
            DISTRIBUTION,
            f"{directory.rpartition('/')[2]} was compiled before {name} was edited",
            path=directory,
            layer=newest.layer,
            fix="remove the directory in the layer that edits the sources",
        )


def _edited(context: Context, owner: Distribution) -> list[Located]:
    """Return the sources that are not as their distribution brought them."""
    patched = {
        state.located.entry.path
        for state in context.patch_states
        if state.located is not None and not state.lost
    }
    rows = {
        claim.path: claim.row
        for claim in context.ownership.claims_of(owner.name)
        if claim.row.algorithm == "sha256"
    }
    found = []
    for located in context.view.tree.under(f"{owner.site}/{SOURCES}"):
        path = located.entry.path
        if not located.entry.has_content:
            continue
        differs = path in rows and rows[path].digest != located.entry.sha256
        if path in patched or differs or located.layer > owner.layer:
            found.append(located)
    return found
