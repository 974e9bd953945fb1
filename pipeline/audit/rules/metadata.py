"""Installations that cannot be trusted to say what they are."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.audit.context import Context
from pipeline.audit.findings import Finding
from pipeline.inventory.distributions import Distribution
from pipeline.inventory.infos import find_sites


def missing_sites(context: Context) -> bool:
    """Whether the image has none of the site-packages directories that it should have."""
    sites, tree = context.inventory.sites, context.view.tree
    return bool(context.expectation.sites) and not any(tree.has_below(site) for site in sites)


def sites(context: Context) -> Iterator[Finding]:
    """Distributions stand where they should, and what stands elsewhere is said."""
    judged = context.inventory.sites
    others = [site for site in find_sites(context.view.tree) if site not in judged]
    if missing_sites(context):
        yield context.finding(
            "site-missing",
            judged[0],
            "the image has nothing in this directory, so no distribution can be judged"
            + (f"; there is {', '.join(others)}" if others else ""),
            fix="name the lock, or the base, that this image was made from",
        )
    for site in others:
        yield context.finding(
            "site-not-judged",
            site,
            "holds distributions too, which are not held against the lock",
            path=site,
        )


def duplicates(context: Context) -> Iterator[Finding]:
    """A project is installed once: two dist-infos mean that files of two versions are mixed."""
    for name, found in context.inventory.by_name.items():
        sites: dict[str, list[Distribution]] = {}
        for one in found:
            sites.setdefault(one.site, []).append(one)
        for same in sites.values():
            if len(same) > 1:
                yield _finding(context, "duplicate-dist", name, same)
        if len(sites) > 1:
            yield _finding(context, "shadowed-dist", name, found)


def _finding(
    context: Context, rule: str, name: str, found: list[Distribution] | tuple[Distribution, ...]
) -> Finding:
    newest = max(found, key=lambda one: (one.layer, one.path))
    pin = context.expectation.pins.get(name)
    copies = " and ".join(f"{one.version} ({one.path.rpartition('/')[2]})" for one in found)
    if rule == "duplicate-dist":
        message = f"is installed {len(found)} times in {newest.site}: {copies}"
        fix = "remove the files and the dist-info of the other copy"
    else:
        message = f"is installed in {len(found)} directories, the interpreter's path decides: " + (
            " and ".join(f"{one.version} in {one.site}" for one in found)
        )
        fix = "remove the copy that is not meant"
    if pin is not None and pin.version is not None:
        message += f"; the lock has {pin.version}"
    return context.finding(rule, name, message, path=newest.path, layer=newest.layer, fix=fix)


def broken(context: Context) -> Iterator[Finding]:
    """Every dist-info says one name and one version, the same as its directory's name."""
    for one in context.inventory.broken:
        yield context.finding(
            "broken-metadata",
            one.name,
            f"{one.path.rpartition('/')[2]}: {one.problem}",
            path=one.path,
            layer=one.layer,
            fix="remove the directory; install the distribution anew if it is meant to be there",
        )
