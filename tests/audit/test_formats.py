"""One image with the faults of many handed cases, in every form of subject that can carry them."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import zstandard

from pipeline.audit.expectation import KnownFault, PatchExpectation, Probe
from pipeline.audit.run import audit
from pipeline.inventory.facts import read_binaries
from pipeline.inventory.loader import Loader
from pipeline.oci.view import ImageView
from pipeline.subjects import open_subject, parse_subject
from tests.audit.images import GONE, SITE, Content, Link, distribution, expect
from tests.inventory.test_loader import X86_64, elf
from tests.oci.archives import MAKERS, config_of, write
from tests.oci.layouts import Layout, tagged
from tests.oci.makelayer import Item, file, symlink, tar, whiteout

PINS = {
    "torch": "2.13.0",
    "nvidia-nccl-cu13": "2.30.7",
    "vllm": "0.30.0",
    "duplicated": "1.0",
    "spelled-name": "1.0",
    "sglang": "0.5.5",
    "recorded": "1",
    "one": "1",
    "two": "1",
    "gone": "1",
    "flashinfer-python": "0.6.18",
}
EDITABLE = '{"dir_info": {"editable": true}, "url": "file:///sgl/python"}'
HEADER = f"{SITE}/flashinfer/data/include/tile.cuh"
PATCH = PatchExpectation("scale", f"{SITE}/vllm/a.py", (Probe(b"patched"),), (Probe(b"pristine"),))


def layers() -> list[Mapping[str, Content]]:
    """Cases 11, 13-16, 18-20, 30 and 31 in one image."""
    base: dict[str, Content] = {
        **distribution("torch", "2.13.0", requires=["nvidia-nccl-cu13==2.29.7"]),
        **distribution("nvidia-nccl-cu13", "2.30.7"),
        **distribution("vllm", "0.30.0", {"vllm/a.py": "pristine\n"}),
        **distribution("duplicated", "1.0"),
        **distribution("spelled-name", "1.0.0", directory="Spelled.Name-1.0.0"),
        **distribution("sglang", "0.5.5", extra={"direct_url.json": EDITABLE}),
        **distribution("recorded", "1", {"recorded/a.py": "1", "recorded/b.py": "1"}),
        **distribution("gone", "1"),
        **distribution("flashinfer-python", "0.6.18", {"flashinfer/data/include/tile.cuh": "32"}),
        "root/.cache/flashinfer/0.6.18/121a/cached_ops/mla/mla.so": "old",
        "opt/cleared/old": "1",
        "opt/cleared/kept": "1",
    }
    patched: dict[str, Content] = {f"{SITE}/vllm/a.py": "patched\n", HEADER: "16"}
    later: dict[str, Content] = {
        f"{SITE}/nvidia_nccl_cu13-2.30.7.dist-info": GONE,  # 14
        **distribution("nvidia-nccl-cu13", "2.29.7"),
        **distribution("vllm", "0.30.0", {"vllm/a.py": "pristine\n"}),  # 11
        **distribution("duplicated", "2.0"),  # 15
        f"{SITE}/linked-1.dist-info": Link("one-1.dist-info"),
        f"{SITE}/recorded/a.py": "edited",  # 19
        f"{SITE}/recorded/b.py": GONE,
        f"{SITE}/gone-1.dist-info": GONE,  # 20
        **distribution("one", "1", {"shared.py": "1"}),  # 30
        **distribution("two", "1", {"shared.py": "2"}),
        f"{SITE}/two/wrong.so": elf("wrong.so", machine=X86_64),  # 31
    }
    return [base, patched, later]


FOUND = {
    ("distribution-missing", "gone"),
    ("duplicate-dist", "duplicated"),
    ("file-conflict", "one"),
    ("file-missing", "recorded"),
    ("file-modified", "recorded"),
    ("origin-editable", "sglang"),
    ("patch-lost", "scale"),
    ("pin-downgraded", "nvidia-nccl-cu13"),
    ("stale-jit", "flashinfer-python"),
    ("wrong-arch", f"{SITE}/two/wrong.so"),
}


def judged(view: ImageView, cache: Path | None = None) -> list[tuple[str, str, str, str]]:
    known = (KnownFault("file-modified", "flashinfer-python", "the patch of the header"),)
    report = audit(
        view,
        expect(PINS, patches=(PATCH,), known=known),
        loader=Loader(view, read_binaries(view, cache)),
    )
    return [(one.rule, one.severity, one.subject, one.path) for one in report.findings]


def item(path: str, content: Content) -> Item:
    if content is None:
        return whiteout(path)
    if isinstance(content, Link):
        return symlink(path, content.target)
    return file(path, content)


def tars() -> list[bytes]:
    return [tar([item(path, content) for path, content in one.items()]) for one in layers()]


PACK: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor().compress,
}


def layout(root: Path, pack: str) -> Path:
    made = Layout(root)
    plain = tars()
    diff_ids = ["sha256:" + hashlib.sha256(one).hexdigest() for one in plain]
    made.finish(tagged(made.image([PACK[pack](one) for one in plain], diff_ids=diff_ids), "t"))
    return root


def unpack(root: Path, contents: Sequence[Mapping[str, Content]]) -> None:
    """Write what a container of these layers would see."""
    for layer in contents:
        for path, content in layer.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                shutil.rmtree(target) if target.is_dir() else target.unlink()
            elif isinstance(content, Link):
                target.symlink_to(content.target)
            else:
                target.write_bytes(content.encode() if isinstance(content, str) else content)


def subject(tmp_path: Path, kind: str, pack: str) -> str:
    tmp_path.mkdir(exist_ok=True)
    if kind == "oci":
        return f"oci:{layout(tmp_path / 'oci', pack)}"
    path = tmp_path / "saved.tar"
    if kind == "oci in a tar":
        root = layout(tmp_path / "oci", pack)
        found = sorted(one for one in root.rglob("*") if one.is_file())
        write(path, [file(str(one.relative_to(root)), one.read_bytes()) for one in found])
    else:
        plain = tars()
        write(path, MAKERS[kind](config_of(plain), [PACK[pack](one) for one in plain]))
    return f"docker-archive:{path}"


KINDS = ["oci", "oci in a tar", *MAKERS]


@pytest.mark.parametrize("pack", PACK)
@pytest.mark.parametrize("kind", KINDS)
def test_11_13_14_15_16_18_19_20_30_31_in_every_form(tmp_path: Path, kind: str, pack: str) -> None:
    view = open_subject(parse_subject(subject(tmp_path, kind, pack)), tmp_path / "cache")
    found = judged(view, tmp_path / "cache")
    loud = {(rule, name) for rule, severity, name, _ in found if severity != "note"}
    assert loud == FOUND
    again = open_subject(parse_subject(subject(tmp_path / "2", kind, pack)), tmp_path / "cache")
    assert judged(again, tmp_path / "cache") == found


def test_11_14_15_16_18_19_20_30_31_in_an_unpacked_tree(tmp_path: Path) -> None:
    unpack(tmp_path / "tree", layers())
    found = judged(open_subject(parse_subject(f"rootfs:{tmp_path / 'tree'}"), tmp_path / "cache"))
    loud = {(rule, name) for rule, severity, name, _ in found if severity != "note"}
    # Which layer came after which cannot be seen in a tree: the cache may be of the new header.
    assert loud - {("stale-jit", "flashinfer-python")} == FOUND - {
        ("stale-jit", "flashinfer-python")
    }
