"""A layer of wheels: its bytes are the same on every machine and in every run."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from pipeline.errors import Refusal
from pipeline.oci.content import index_blob
from pipeline.wheels.layer import WheelFile, write_wheel_layer
from pipeline.wheels.member import WHOLE
from pipeline.wheels.target import Target
from tests.wheels.makewheel import Item, make_wheel

GOLDEN_DIFF_ID = "sha256:2517d5a5098b687b0991098a5e994ab839b6c552744832909019fe29076271c4"
GOLDEN_DIGEST = "sha256:1893f1e59a2a67709c4a8b1d8ec56f33b82a926010adb4a8ffd3ddad5e54b5e8"
GOLDEN_ZSTD = (1, 5, 7)  # the library that the lock names: another one compresses to other bytes

PROGRAM = """
import sys
from pathlib import Path
from pipeline.wheels.layer import WheelFile, write_wheel_layer
from pipeline.wheels.target import Target
out, threads, *paths = sys.argv[1:]
files = [WheelFile(Path(path), Path(path).name) for path in paths]
index, _ = write_wheel_layer(files, Path(out), Target(), epoch=1767225600, level=3,
                             threads=int(threads))
print(index.digest)
"""


def small(directory: Path) -> list[WheelFile]:
    paths = [
        make_wheel(
            directory,
            "b-second",
            files={"b/__init__.py": "x = 1\n", "b/big.bin": bytes(range(256)) * (WHOLE // 100)},
            info={"entry_points.txt": "[console_scripts]\nz = b:z\na = b:a\n"},
        ),
        make_wheel(
            directory,
            "A_first",
            files={
                "a/" + "long" * 70 + ".py": "",
                "a/ü.txt": "ü\n",
                "A_first-1.0.data/scripts/s": Item(b"#!python\n"),
            },
        ),
    ]
    return [WheelFile(path, path.name) for path in paths]


def test_golden_layer(tmp_path: Path) -> None:
    index, installed = write_wheel_layer(
        small(tmp_path), tmp_path / "blob", Target(), epoch=1767225600, level=3
    )
    assert [item.name for item in installed] == ["a-first", "b-second"]
    assert index.diff_id == GOLDEN_DIFF_ID
    assert zstandard.ZSTD_VERSION == GOLDEN_ZSTD
    assert index.digest == GOLDEN_DIGEST


def test_runs_under_other_circumstances_give_equal_bytes(tmp_path: Path) -> None:
    paths = [str(file.path) for file in small(tmp_path)]
    digests = set()
    circumstances = [("0", "UTC", "C", 0o22, "1"), ("7", "Asia/Tokyo", "C.UTF-8", 0o77, "3")]
    for number, (seed, zone, locale, umask, threads) in enumerate(circumstances):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "LC_ALL": locale}
        command = [sys.executable, "-c", PROGRAM, str(tmp_path / f"blob{number}"), threads, *paths]
        done = subprocess.run(
            command, env=environment, umask=umask, check=True, capture_output=True, text=True
        )
        digests.add(done.stdout)
        paths.reverse()
    assert len(digests) == 1


def test_the_index_is_what_a_reader_of_the_blob_finds(tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    index, _ = write_wheel_layer(small(tmp_path), blob, Target(), epoch=1767225600, level=3)
    read = index_blob(blob)
    assert (read.digest, read.diff_id, read.size) == (index.digest, index.diff_id, index.size)
    plain = [entry._replace(offset=-1) for entry in index.entries]
    assert [entry._replace(offset=-1) for entry in read.entries] == plain


def test_arguments_go_through_a_process_pool(tmp_path: Path) -> None:
    files = small(tmp_path)
    assert pickle.loads(pickle.dumps((files, Target()))) == (files, Target())  # noqa: S301


def test_a_refusal_leaves_nothing(tmp_path: Path) -> None:
    files = small(tmp_path)
    files[0].path.write_bytes(b"no wheel")
    with pytest.raises(Refusal, match=r"b_second-1\.0-py3-none-any\.whl"):
        write_wheel_layer(files, tmp_path / "blob", Target(), epoch=0, level=3)
    assert not (tmp_path / "blob").exists()
