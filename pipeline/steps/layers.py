"""How steps hand layers to each other: a blob and its index in the output directory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.oci.blob import Absent
from pipeline.oci.image import Layer
from pipeline.oci.index import LayerIndex
from pipeline.oci.texts import Texts
from pipeline.oci.tree import Tree
from pipeline.oci.view import LayerInfo, LayersView
from pipeline.steps.program import Inputs, Result, StepOutput
from pipeline.steps.small import small_files

BLOB = "layer.tar.zst"
INDEX = "layer.json"


def compressors() -> int:
    """How many threads compress one layer. It has no influence on the bytes."""
    return min(2, os.cpu_count() or 1)


def seal(
    index: LayerIndex, out: Path, *, created_by: str, notes: Sequence[str] = (), **facts: Any
) -> Result:
    """Write the index of a finished blob beside it and return the step's result."""
    (out / INDEX).write_bytes(index.to_bytes())
    document = {
        **facts,
        "notes": list(notes),
        "layer": {
            "digest": index.digest,
            "diff_id": index.diff_id,
            "size": index.size,
            "media_type": index.media_type,
            "created_by": created_by,
        },
    }
    return Result(document, {BLOB: index.digest.removeprefix("sha256:")})


def layer_of(output: StepOutput) -> Layer:
    """Return the layer that a step made."""
    return Layer(**output.facts["layer"])


@lru_cache(maxsize=64)
def _load_index(path: Path, sha256: str) -> LayerIndex:
    return LayerIndex.from_bytes(path.read_bytes())


def index_of(output: StepOutput) -> LayerIndex:
    """Return the index of a step's layer; read once in a process."""
    return _load_index(output.directory / INDEX, output.files[INDEX][0])


def blob_of(output: StepOutput, file: Callable[[str], Path]) -> Path | Absent:
    """Return where the layer of a step lies: in its output, or, of a base image, as it came.

    `file` maps the hex sha256 of a locked file to its place.
    """
    if BLOB in output.files:
        return output.directory / BLOB
    digest = layer_of(output).digest
    place = file(digest.removeprefix("sha256:"))
    return place if place.is_file() else Absent(digest)


def view_of(name: str, outputs: Iterable[StepOutput], inputs: Inputs) -> LayersView:
    """Return the image that layer steps make together, lowest first; they are of `inputs`."""
    outputs = tuple(outputs)
    infos: Sequence[LayerInfo] = [
        LayerInfo(layer.digest, layer.diff_id, layer.created_by) for layer in map(layer_of, outputs)
    ]
    blobs = [(blob_of(output, inputs.file), index_of(output)) for output in outputs]
    return LayersView(
        name,
        blobs,
        infos,
        {},
        tree_of(outputs),
        texts=Texts(inputs.kept) if inputs.kept else None,
        at_hand=lambda layer, entries: small_files(outputs[layer], entries),
    )


# The images of a chain are nearly equal: each tree is the one below it and a layer more. One worker
# sees a few of them, so the last ones are kept, by the sha256 of their layers' indexes.
_KEPT = 3
_trees: dict[tuple[str, ...], Tree] = {}


def tree_of(outputs: Sequence[StepOutput]) -> Tree:
    """Return the merged tree of layer steps, lowest first."""
    key = tuple(output.files[INDEX][0] for output in outputs)
    if key not in _trees:
        below = max((known for known in _trees if known == key[: len(known)]), key=len, default=())
        rest = outputs[len(below) :]
        tree = Tree.merge((index_of(output).entries for output in rest), _trees.get(below))
        while len(_trees) >= _KEPT:
            del _trees[next(iter(_trees))]
        _trees[key] = tree
    return _trees[key]
