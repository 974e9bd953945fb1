"""Contents beside a layer: the same as in it, or not used."""

import hashlib
from pathlib import Path

import pytest

from pipeline.oci.image import canonical
from pipeline.oci.layer import LayerWriter
from pipeline.steps.layers import BLOB, seal, view_of
from pipeline.steps.program import RESULT, Inputs, StepOutput
from pipeline.steps.small import SMALL, SmallFiles, small_files

FILES = {
    "site/a-1.dist-info/METADATA": b"Name: a\n",
    "site/a-1.dist-info/RECORD": b"a.py,,\n",
    "site/a.pth": b"a\n",
    "site/a.py": b"A = 1\n",
}


def layer(out: Path) -> StepOutput:
    small = SmallFiles()
    with LayerWriter(out / BLOB, epoch=0, level=1, seen=small.take) as writer:
        for path, data in FILES.items():
            writer.add_file(path, data, len(data))
        index = writer.close()
    small.write(index, out)
    result = seal(index, out, created_by="a test")
    files = {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
        for path in out.iterdir()
    }
    (out / RESULT).write_bytes(canonical({"facts": result.facts, "files": files}))
    return StepOutput(out, (out / RESULT).read_bytes())


def no_file(sha256: str) -> Path:
    raise AssertionError(sha256)


NOTHING = Inputs({}, no_file, ())


def test_metadata_is_read_without_the_layer(tmp_path: Path) -> None:
    view = view_of("image", [layer(tmp_path)], NOTHING)
    (tmp_path / BLOB).unlink()
    kept = [path for path in FILES if not path.endswith(".py")]
    assert view.read_many(kept) == {path: FILES[path] for path in kept}
    with pytest.raises(OSError, match="No such file"):
        view.read_many(["site/a.py"])


def test_what_is_not_what_the_index_says_is_read_from_the_layer(tmp_path: Path) -> None:
    output = layer(tmp_path)
    view = view_of("image", [output], NOTHING)
    other = SmallFiles()
    with LayerWriter(tmp_path / "other", epoch=0, level=1, seen=other.take) as writer:
        writer.add_file("site/a.pth", b"b\n", 2)
        index = writer.close()
    other.write(index, tmp_path)
    assert view.read_many(list(FILES)) == FILES
    entry = view.tree.nodes["site/a.pth"].entry
    assert small_files(output, [entry]) == {}
    assert small_files(output, [entry._replace(sha256=index.files["site/a.pth"].sha256)])


def test_a_layer_without_any_has_no_such_file(tmp_path: Path) -> None:
    small = SmallFiles()
    with LayerWriter(tmp_path / BLOB, epoch=0, level=1, seen=small.take) as writer:
        writer.add_file("etc/x", b"x", 1)
        small.write(writer.close(), tmp_path)
    assert not (tmp_path / SMALL).exists()
