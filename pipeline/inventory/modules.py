"""Find the file of a module as the image's interpreter would: site-packages, then path files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.oci.view import ImageView


def search_path(view: ImageView, site: str) -> tuple[str, ...]:
    """Return `site` and the directories that its .pth files add, in the order of `site.py`.

    Lines that import code are skipped: what they do is known only when they run.
    """
    names = [
        located.entry.path
        for located in view.tree.under(site)
        if located.entry.path.endswith(".pth")
        and located.entry.has_content
        and located.entry.path.rpartition("/")[0] == site
    ]
    contents = view.read_many(names) if names else {}
    found = [site]
    for name in names:
        for line in contents[name].decode("utf-8", "backslashreplace").splitlines():
            text = line.strip()
            if text and not text.startswith(("#", "import ", "import\t")):
                directory = view.tree.real_path(text if text.startswith("/") else f"{site}/{text}")
                if directory:
                    found.append(directory)
    return tuple(found)


def module_file(view: ImageView, directories: Sequence[str], module: str) -> str | None:
    """Return the source file of a dotted module name, None when no directory has it."""
    return next(_candidates(view, directories, module.replace(".", "/")), None)


def _candidates(view: ImageView, directories: Sequence[str], path: str) -> Iterator[str]:
    for directory in directories:
        for suffix in ("/__init__.py", ".py"):
            real = view.tree.real_path(f"{directory}/{path}{suffix}")
            located = view.tree.get(real) if real else None
            if located is not None and located.entry.has_content:
                yield located.entry.path
