"""`patches capture`: turns an edited copy of a file or tree into a patch."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.requirements import InvalidRequirement, Requirement

from pipeline.cli.patches.common import add_python
from pipeline.errors import OutsideTrouble, Refusal, UsageError
from pipeline.lock.model import Lock
from pipeline.patching.capture import capture
from pipeline.pins import load_lock, lock_path
from pipeline.wheels.target import Target

if TYPE_CHECKING:
    from pipeline.cli.patches.common import Actions

_SITE = ("site-packages", "dist-packages")


def add_arguments(actions: Actions) -> None:
    """Declare what `capture` takes."""
    parser = actions.add_parser(
        "capture",
        help="turn an edited copy of a file or tree into a patch",
        description="Compares OLD with NEW and prints a patch that makes NEW of OLD byte for byte,"
        " with the shortest anchors that are unique in their function. Byte code and the RECORD of"
        " a distribution are left out: applying a patch renews both. Exit status 1 when a change"
        " cannot be expressed.",
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="a file or tree as released")
    parser.add_argument("new", type=Path, metavar="NEW", help="its edited copy")
    parser.add_argument(
        "--for", dest="requirement", required=True, metavar="REQ", help="as in vllm==0.33.*"
    )
    parser.add_argument(
        "--file", metavar="PATH", help="the file's path in site-packages (default: told by OLD)"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write it there; it must not exist"
    )
    add_python(parser, "the base's")


def run(args: argparse.Namespace) -> int:
    """Prints or writes the patch. Raises ChainError."""
    try:
        requirement = Requirement(args.requirement)
    except InvalidRequirement as error:
        raise UsageError(f"{args.requirement!r} is no requirement", hint="vllm==0.33.*") from error
    output: Path | None = args.output
    if output is not None and (output.suffix != ".toml" or output.exists()):
        raise UsageError(f"{output} must be a new .toml file")
    if args.old.is_dir() != args.new.is_dir():
        raise UsageError("OLD and NEW must be two files or two trees")
    if args.old.is_dir():
        if args.file:
            raise UsageError("--file is for a single file")
        files = _trees(args.old, args.new)
    else:
        path = args.file or _in_site(args.old) or _in_site(args.new)
        if not path:
            raise UsageError(f"{args.old} tells no path in site-packages", hint="give --file")
        files = {path: (_read(args.old), _read(args.new))}
    name = output.stem if output else "captured"
    made = capture(name, requirement, files, args.python or _python())
    if output:
        try:
            with output.open("x", encoding="utf-8", newline="\n") as file:
                file.write(made.text)
        except OSError as error:
            raise OutsideTrouble(f"{output} cannot be written: {error.strerror}") from error
    else:
        sys.stdout.write(made.text)
    count = len(made.patch.variants[0].edits)
    edits = "1 edit" if count == 1 else f"{count} edits"
    print(f"{edits}: applied to OLD, they give NEW byte for byte", file=sys.stderr)
    bare = [edit for edit in made.patch.variants[0].edits if edit.within is None]
    if bare:
        names = ", ".join(edit.id for edit in bare)
        print(f"without a scope, unique in the whole file: {names}", file=sys.stderr)
    return 0


def _python() -> str:
    path = lock_path(Path.cwd())
    lock: Lock | None = load_lock(path) if path.exists() else None
    target = lock.base("wheels").target if lock and "wheels" in lock.bases else Target()
    return "{}.{}".format(*target.python_version)


def _trees(old: Path, new: Path) -> dict[str, tuple[bytes, bytes]]:
    """Files that differ. Raises Refusal for what no edit can express, all of it at once."""
    before, after = dict(_files(old)), dict(_files(new))
    problems = [f"{path}: only in OLD" for path in sorted(before.keys() - after.keys())]
    problems += [f"{path}: only in NEW" for path in sorted(after.keys() - before.keys())]
    files = {}
    for path in sorted(before.keys() & after.keys()):
        one, other = before[path], after[path]
        if one.is_symlink() or other.is_symlink():
            if not (one.is_symlink() and other.is_symlink()) or _link(one) != _link(other):
                problems.append(f"{path}: a link that differs")
        elif not one.samefile(other):
            pair = _read(one), _read(other)
            if pair[0] != pair[1]:
                files[_below_site(path)] = pair
    if problems:
        raise Refusal(
            "a patch edits files; it adds, removes and links none",
            hint="a stage's [[files]] adds whole files",
            details=problems[:20],
        )
    return files


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """Files and links below a tree by relative path, without what applying a patch renews."""
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        links = [name for name in folders if (here / name).is_symlink()]
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in [*names, *links]:
            record = name == "RECORD" and here.suffix == ".dist-info"
            if not record and not name.endswith(".pyc"):
                yield (here / name).relative_to(root).as_posix(), here / name


def _link(path: Path) -> str:
    return str(path.readlink())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file") from error
    except OSError as error:
        raise OutsideTrouble(f"{path} cannot be read: {error.strerror}") from error


def _in_site(path: Path) -> str:
    """A file's path below the site-packages that it lies in, or ""."""
    whole = path.resolve().as_posix()
    below = _below_site(whole)
    return below if below != whole else ""


def _below_site(path: str) -> str:
    parts = PurePosixPath(path).parts
    last = max((number for number, part in enumerate(parts) if part in _SITE), default=-1)
    return str(PurePosixPath(*parts[last + 1 :])) if last >= 0 else path
