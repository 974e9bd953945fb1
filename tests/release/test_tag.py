"""The verb `tag`: which tags a proven image gets, and what no image gets."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli import main
from pipeline.oci.imagefile import ImageFile
from pipeline.oci.reading import find_image
from pipeline.oci.registry.client import Repository
from tests.line import Line, built_line, entered
from tests.oci.registry.server import Fault, Registry
from tests.release.documents import report as sample
from tests.release.test_schemas import schema

OTHER = "sha256:" + "7" * 64


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Line:
    """A line with its dist/, made once."""
    scratch = tmp_path_factory.mktemp("tag")
    return built_line(
        scratch, ("stages/v04-tile.toml", "patches =", 'smoke = ["nope_mla"]\npatches =')
    )


@pytest.fixture
def line(built: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    return entered(built, tmp_path, monkeypatch)


@pytest.fixture
def image(line: Line) -> ImageFile:
    return find_image(line.root / "dist", "sm121-v4")[0]


@pytest.fixture
def repository(registry: Registry, line: Line, capsys: pytest.CaptureFixture[str]) -> str:
    """A repository with v4 in it, without a tag."""
    name = f"{registry.host}/chain"
    assert main(["push", "v4", name, "-q"]) == 0
    capsys.readouterr()
    return name


@pytest.fixture
def report(image: ImageFile, tmp_path: Path) -> Path:
    return write_report(image, tmp_path / "smoke.json")


def write_report(image: ImageFile, path: Path, **more: Any) -> Path:
    """Write a report that proves the image, made just now."""
    now = int(time.time())
    document = sample()
    document["subject"].update(manifest=image.digest, fingerprint=image.fingerprint)
    (rank,) = document["ranks"]
    rank["image"]["fingerprint"] = image.fingerprint
    for place in (document, rank, rank["run"]):
        place.update(started=now - 5, finished=now)
    document.update(more)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def names(image: ImageFile) -> tuple[str, str]:
    return f"sm121-v4-{image.digest[7:19]}", "sm121-v4"


def put_other(registry: Registry, tag: str) -> str:
    """Let a tag name another manifest."""
    data = b'{"schemaVersion": 2}'
    digest = registry.put(data)
    registry.manifests[digest] = (data, "application/vnd.oci.image.manifest.v1+json")
    registry.tags[tag] = digest
    return digest


def record(line: Line, image: ImageFile, prefix: str = "") -> dict[str, Any]:
    folder = line.root / "releases" / "sm121-v4" / f"{prefix}{image.digest[7:19]}"
    document = dict(json.loads((folder / "record.json").read_bytes()))
    schema("release-record-1").validate(document)
    return document


def test_a_proven_image_gets_both_tags(
    repository: str, registry: Registry, image: ImageFile, report: Path, line: Line,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert main(["tag", "v4", repository, "--smoke", str(report)]) == 0
    immutable, moving = names(image)
    assert registry.tags == {immutable: image.digest, moving: image.digest}
    out = capsys.readouterr().out
    assert out == "".join(f"{repository}:{tag} {image.digest}\n" for tag in names(image))
    written = record(line, image)
    assert written["tagged"] is True and written["tags"] == [immutable, moving]
    assert written["pull"] == f"docker pull {repository}@{image.digest}"
    assert written["smoke"][0]["ranks"][0]["gpu"] == "NVIDIA GB10"
    assert {one["name"] for one in written["patches"]} == {"scale", "tile"}
    assert {one["name"]: one["version"] for one in written["pins"]}["vllm"] == "0.30.0"
    # Once more: nothing to do, nothing is written.
    registry.log.clear()
    assert main(["tag", "v4", repository, "--smoke", str(report)]) == 0
    assert registry.asked("^PUT") == []


def test_names_that_others_chose_end_neither_a_cell_nor_the_run(
    repository: str, image: ImageFile, tmp_path: Path, line: Line
) -> None:
    path = write_report(image, tmp_path / "r.json")
    document = json.loads(path.read_bytes())
    (rank,) = document["ranks"]
    rank["host"] = "a|b\n<b>"
    rank["run"]["environment"]["gpu"] = "GB10 \u202e\x1b[31m"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert main(["tag", "v4", repository, "--smoke", str(path)]) == 0
    folder = line.root / "releases" / "sm121-v4" / image.digest[7:19]
    text = (folder / "record.md").read_text(encoding="utf-8")
    assert "Rank 0, a\\|b &lt;b> (docker): GB10 [31m, capability 12.1" in text
    assert record(line, image)["smoke"][0]["ranks"][0]["host"] == "a|b\n<b>"


def test_a_held_stage_is_tagged_as_the_image_that_stands_for_it(
    repository: str, registry: Registry, image: ImageFile, report: Path
) -> None:
    assert main(["tag", "v9", repository, "--smoke", str(report)]) == 0
    assert set(registry.tags) == set(names(image))


def refused(
    capsys: pytest.CaptureFixture[str], registry: Registry, args: list[str], text: str,
    status: int = 1,
) -> None:  # fmt: skip
    """The call is refused with this text, and neither tags nor anything else is written."""
    before, requests = dict(registry.tags), len(registry.log)
    capsys.readouterr()
    assert main(args) == status
    err = capsys.readouterr().err
    assert text in err and "Traceback" not in err, err
    assert registry.tags == before
    assert [one for one in registry.log[requests:] if one[0] not in ("GET", "HEAD")] == []


def test_an_image_that_is_not_proven_gets_none(
    repository: str, registry: Registry, image: ImageFile, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = write_report(image, tmp_path / "r.json", ranks=[])
    refused(capsys, registry, ["tag", "v4", repository, "--smoke", str(path)], "no-rank: ")
    path.write_bytes(b"{")
    args = ["tag", "v4", repository, "--smoke", str(path)]
    refused(capsys, registry, args, "report-unreadable: ")
    path.unlink()
    refused(capsys, registry, args, "no such file", status=2)


def test_another_images_report_is_none(
    repository: str, registry: Registry, line: Line, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    v3 = find_image(line.root / "dist", "sm121-v3")[0]
    path = write_report(v3, tmp_path / "r.json")
    args = ["tag", "v4", repository, "--smoke", str(path)]
    refused(capsys, registry, args, "other-image: ")


def test_a_stage_that_requires_nothing_gets_none(
    repository: str, registry: Registry, line: Line, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    v3 = find_image(line.root / "dist", "sm121-v3")[0]
    path = write_report(v3, tmp_path / "r.json")
    assert main(["push", "v3", repository, "-q"]) == 0
    args = ["tag", "v3", repository, "--smoke", str(path)]
    refused(capsys, registry, args, "nothing-required: the stage requires no probe")


def test_what_is_not_pushed_gets_none(
    registry: Registry, report: Path, capsys: pytest.CaptureFixture[str], image: ImageFile
) -> None:
    args = ["tag", "v4", f"{registry.host}/chain", "--smoke", str(report)]
    refused(capsys, registry, args, "does not have sha256:")


def test_what_is_not_all_there_gets_none(
    repository: str, registry: Registry, report: Path, image: ImageFile,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    del registry.blobs[image.layers[1].digest]
    args = ["tag", "v4", repository, "--smoke", str(report)]
    refused(capsys, registry, args, "blob of layer 1: not there")


def test_an_image_of_another_lock_gets_none(
    repository: str, registry: Registry, report: Path, line: Line,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    line.edit("patches/tile.toml", "TILE 16", "TILE 8")
    args = ["tag", "v4", repository, "--smoke", str(report)]
    refused(capsys, registry, args, "build it first", status=2)


def test_a_tag_with_another_digest_moves_only_from_there(
    repository: str, registry: Registry, report: Path, image: ImageFile, line: Line,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    old = put_other(registry, "sm121-v4")
    args = ["tag", "v4", repository, "--smoke", str(report)]
    refused(capsys, registry, args, f"sm121-v4 is {old} already")
    refused(capsys, registry, [*args, "--move", "--from", OTHER], f"is {old} already, not {OTHER}")
    assert not (line.root / "releases").exists()
    assert main([*args, "--move", "--from", old]) == 0
    assert registry.tags == dict.fromkeys(names(image), image.digest)
    assert record(line, image)["previous"] == old
    # Interrupted after the move and run again: it is where it is to be.
    assert main([*args, "--move", "--from", old]) == 0


def test_a_tag_that_is_not_there_does_not_move(
    repository: str, registry: Registry, report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["tag", "v4", repository, "--smoke", str(report), "--move", "--from", OTHER]
    refused(capsys, registry, args, "sm121-v4 is not there")


def test_an_immutable_tag_keeps_its_meaning(
    repository: str, registry: Registry, report: Path, image: ImageFile,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    old = put_other(registry, names(image)[0])
    args = ["tag", "v4", repository, "--smoke", str(report)]
    refused(capsys, registry, args, f"is {old} already, and is immutable")
    refused(capsys, registry, [*args, "--move", "--from", old], "and is immutable")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--move"], "--move and --from belong together"),
        (["--from", OTHER], "--move and --from belong together"),
        (["--move", "--from", "sha256:1"], "too short"),
        (["--move", "--from", "latest"], "not sha256:<64 hex digits>"),
        (["--move", "--from", OTHER.upper()], ""),
        (["--move", "--from", "sha256:" + "A" * 64], ""),
        (["--move", "--from", OTHER + "\n"], ""),
    ],
)
def test_half_a_move(
    more: list[str], text: str, repository: str, registry: Registry, report: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    args = ["tag", "v4", repository, "--smoke", str(report), *more]
    refused(capsys, registry, args, text, status=2)


def test_a_race_is_lost_after_the_write_and_told(
    repository: str, registry: Registry, report: Path, image: ImageFile,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: Line,
) -> None:  # fmt: skip
    """Somebody else writes each tag right after us: what is read back is theirs."""
    write = Repository.put_tag

    def raced(self: Repository, tag: str, *rest: Any) -> None:
        write(self, tag, *rest)
        if tag == "sm121-v4":
            put_other(registry, tag)

    monkeypatch.setattr(Repository, "put_tag", raced)
    assert main(["tag", "v4", repository, "--smoke", str(report)]) == 1
    assert "somebody else wrote it meanwhile" in capsys.readouterr().err
    assert record(line, image)["tagged"] is False


def test_a_race_is_lost_before_the_write(
    repository: str, registry: Registry, report: Path, image: ImageFile,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Somebody else makes the moving tag between our first look and our write."""
    write = Repository.put_tag
    theirs: list[str] = []

    def raced(self: Repository, tag: str, *rest: Any) -> None:
        write(self, tag, *rest)
        theirs.append(put_other(registry, "sm121-v4"))

    monkeypatch.setattr(Repository, "put_tag", raced)
    assert main(["tag", "v4", repository, "--smoke", str(report)]) == 1
    assert "already" in capsys.readouterr().err
    assert registry.tags["sm121-v4"] == theirs[0] and len(theirs) == 1


@pytest.mark.parametrize("carry_out", [False, True])
def test_between_two_tries_of_a_write_the_tag_is_read_again(
    carry_out: bool, repository: str, registry: Registry, report: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The registry fails, perhaps after it took the tag; by the next try the tag is another's."""
    fault = Fault("^PUT .*/manifests/sm121-v4$", status=503, carry_out=carry_out)
    registry.faults.append(fault)
    theirs: list[str] = []

    def meanwhile(answer: object) -> float:
        theirs.append(put_other(registry, "sm121-v4"))
        return 0

    monkeypatch.setattr("pipeline.oci.registry.wire._retry_after", meanwhile)
    assert main(["tag", "v4", repository, "--smoke", str(report)]) == 1
    assert "sm121-v4 is " + theirs[0] + " already" in capsys.readouterr().err
    assert registry.tags["sm121-v4"] == theirs[0]
    assert len(registry.asked("^PUT .*/manifests/sm121-v4$")) == 1


def test_a_failure_after_the_tag_was_taken_is_a_success(
    repository: str, registry: Registry, report: Path, image: ImageFile
) -> None:
    registry.faults.append(Fault("^PUT .*/manifests/sm121", times=2, status=500, carry_out=True))
    assert main(["tag", "v4", repository, "--smoke", str(report)]) == 0
    assert set(registry.tags.values()) == {image.digest}


@pytest.mark.parametrize("kind", ["absent", "below-a-file", "pipe", "folder", "dangling", "device"])
def test_a_report_that_is_no_file(
    kind: str, repository: str, registry: Registry, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "r.json"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "below-a-file":
        path.touch()
        path = path / "r.json"
    args = ["tag", "v4", repository, "--smoke", str(path)]
    refused(capsys, registry, args, "file", status=2)


def test_a_tag_that_is_taken_and_not_kept(
    repository: str, registry: Registry, report: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.faults.append(Fault("^PUT .*/manifests/sm121", times=9, status=201))
    assert main(["tag", "v4", repository, "--smoke", str(report)]) == 3
    assert "cannot be read back" in capsys.readouterr().err


def test_without_a_smoke_run(
    repository: str, registry: Registry, image: ImageFile, line: Line,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    old = put_other(registry, "sm121-v4")
    reason = "the GB10 | is being\nrepaired"
    assert main(["tag", "v4", repository, "--without-smoke", reason]) == 0
    unproven = f"sm121-v4-unproven-{image.digest[7:19]}"
    assert registry.tags == {"sm121-v4": old, unproven: image.digest}
    written = record(line, image, "unproven-")
    assert written["without_smoke"] == reason and written["smoke"] == []
    assert written["manifest"] == image.digest
    text = (
        line.root / "releases" / "sm121-v4" / f"unproven-{image.digest[7:19]}" / "record.md"
    ).read_text(encoding="utf-8")
    assert "**None was made.** the GB10 \\| is being repaired" in text
    # A proven release of the same image stands beside it.
    assert main(["tag", "v4", repository, "--without-smoke", reason]) == 0


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (["--without-smoke", " "], "needs a reason"),
        (["--without-smoke", ""], "needs a reason"),
        (["--without-smoke", "\n\t\x1b\u200b"], "needs a reason"),
        (["--without-smoke", "x", "--move", "--from", OTHER], "no tag is moved"),
    ],
)
def test_without_a_smoke_run_and_wrong(
    more: list[str], text: str, repository: str, registry: Registry,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    refused(capsys, registry, ["tag", "v4", repository, *more], text, status=2)


def test_one_of_both_must_be_given(repository: str, report: Path) -> None:
    for more in ([], ["--smoke", str(report), "--without-smoke", "x"]):
        with pytest.raises(SystemExit) as caught:
            main(["tag", "v4", repository, *more])
        assert caught.value.code == 2


def test_a_tag_that_would_be_too_long(
    line: Line, registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tag = "t" * 120
    line.edit("stages/v04-tile.toml", '"sm121-v4"', f'"{tag}"')
    cache = tmp_path / "cache" / "files"
    cache.parent.mkdir(exist_ok=True)
    shutil.copytree(line_cache(line), cache)
    assert main(["build", "--offline", "-q", "--to", "v4"]) == 0
    repository = f"{registry.host}/chain"
    assert main(["push", "v4", repository, "-q"]) == 0
    path = write_report(find_image(line.root / "dist", tag)[0], tmp_path / "r.json")
    args = ["tag", "v4", repository, "--smoke", str(path)]
    refused(capsys, registry, args, "longer than 128", status=2)


def line_cache(line: Line) -> Path:
    """Where the files of the line that all tests share are cached."""
    return next(iter(line.wheels.values())).parents[2] / "cache" / "files"


def test_probes_are_no_input_of_an_image(line: Line, image: ImageFile, tmp_path: Path) -> None:
    """Another list of probes, the same digest: golden lines do not move."""
    line.edit("stages/v04-tile.toml", 'smoke = ["nope_mla"]', 'smoke = ["fa2_rows"]')
    files: Callable[..., Any] = shutil.copytree
    files(line_cache(line), tmp_path / "cache" / "files", dirs_exist_ok=True)
    assert main(["build", "--offline", "-q", "--to", "v4"]) == 0
    assert find_image(line.root / "dist", "sm121-v4")[0].digest == image.digest
