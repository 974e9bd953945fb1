"""The frames of a zstd blob by its headers: each field of RFC 8878, made by hand, and real ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import zstandard

from pipeline.oci.frames import (
    HEADER,
    MAX_FRAME,
    FrameFault,
    Frames,
    FrameScan,
    find_frames,
    may_be_frames,
)

MAGIC = b"\x28\xb5\x2f\xfd"
RAW, RLE, COMPRESSED, RESERVED = range(4)


def block(kind: int, data: bytes, size: int | None = None, *, last: bool = True) -> bytes:
    """A block: of `size` bytes of content, where that is not the length of its data."""
    length = len(data) if size is None else size
    return (length << 3 | kind << 1 | last).to_bytes(3, "little") + data


def frame(
    blocks: bytes,
    declared: int | None,
    width: int = 1,
    *,
    single: bool = True,
    dictionary: int = 0,
    checksum: bool = False,
) -> bytes:
    """A frame whose header has the fields asked for; `width` is that of the content's size."""
    flag = 0 if declared is None else {1: 0, 2: 1, 4: 2, 8: 3}[width]
    descriptor = flag << 6 | single << 5 | checksum << 2 | dictionary.bit_length()
    field = b""
    if declared is not None:
        field = (declared - 256 * (width == 2)).to_bytes(width, "little")
    window = b"" if single else b"\x40"
    ids = bytes([0xD1] * dictionary)
    return MAGIC + bytes([descriptor]) + window + ids + field + blocks + bytes(4 * checksum)


def skippable(data: bytes, nibble: int = 5) -> bytes:
    head = bytes([nibble << 4 | 3]) + b"\x2a\x4d\x18"
    return head + len(data).to_bytes(4, "little") + data


def ask(directory: Path, *frames: bytes) -> Frames | None:
    path = directory / "blob"
    path.write_bytes(b"".join(frames))
    return find_frames(path)


def sizes(*frames: bytes) -> tuple[int, ...]:
    return tuple(map(len, frames))


FOUR = frame(block(RAW, b"four"), 4)
THREE = frame(block(RAW, b"thr"), 3)
UNKNOWN = frame(block(RAW, b"four"), None, single=False)


def test_what_is_made_by_hand_here_is_zstd() -> None:
    many = block(RAW, b"a", last=False) + block(RLE, b"b", 3)
    made = zstandard.ZstdDecompressor()
    assert made.decompress(frame(many, 4)) == b"abbb"
    wide = block(RAW, b"w" * 300)
    for width in (2, 4, 8):
        assert made.decompress(frame(wide, 300, width)) == b"w" * 300
        assert made.decompress(frame(wide, 300, width, single=False)) == b"w" * 300


@pytest.mark.parametrize("dictionary", [0, 1, 2, 4])
@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize(
    ("width", "single"),  # one byte of size is there in a single segment only
    [(1, True), (2, True), (4, True), (8, True), (2, False), (4, False), (8, False)],
)
def test_every_form_of_header(
    tmp_path: Path, width: int, checksum: bool, single: bool, dictionary: int
) -> None:
    content = b"c" * 300 if width > 1 else b"c" * 30
    one = frame(
        block(RAW, content),
        len(content),
        width,
        single=single,
        dictionary=dictionary,
        checksum=checksum,
    )
    assert ask(tmp_path, one, one, one) == Frames(len(content), sizes(one, one, one))


def test_blocks_of_every_kind(tmp_path: Path) -> None:
    blocks = (
        block(RAW, b"aa", last=False)
        + block(RLE, b"b", 70_000, last=False)
        + block(COMPRESSED, b"no matter")
    )
    one = frame(blocks, 70_030, 4)
    assert ask(tmp_path, one, one) == Frames(70_030, sizes(one, one))
    with pytest.raises(FrameFault, match="no known type"):
        ask(tmp_path, frame(block(RESERVED, b"xx"), 2))


def test_the_last_frame_may_hold_less_and_no_other(tmp_path: Path) -> None:
    assert ask(tmp_path, FOUR, FOUR, THREE) == Frames(4, sizes(FOUR, FOUR, THREE))
    assert ask(tmp_path, FOUR, THREE, THREE) is None
    assert ask(tmp_path, FOUR, THREE, FOUR, FOUR) is None
    assert ask(tmp_path, THREE, FOUR) is None
    assert ask(tmp_path, FOUR) == Frames(4, sizes(FOUR))


def test_frames_that_do_not_say_what_they_hold(tmp_path: Path) -> None:
    assert ask(tmp_path, UNKNOWN) is None
    assert ask(tmp_path, FOUR, UNKNOWN) is None
    assert ask(tmp_path, FOUR, UNKNOWN, FOUR) is None
    assert ask(tmp_path) is None


def test_a_frame_that_is_skipped_is_no_random_access(tmp_path: Path) -> None:
    ended = skippable(b"\xff" * 300)
    assert ask(tmp_path, ended, FOUR, FOUR) is None
    assert ask(tmp_path, FOUR, ended) is None
    # It is stepped over to the byte: what follows is found, and found cut off.
    for data in (b"", b"\xff", b"\xff" * 300):
        with pytest.raises(FrameFault, match="ends inside"):
            ask(tmp_path, FOUR, skippable(data), FOUR[:-1])
        assert ask(tmp_path, FOUR, skippable(data), FOUR) is None


@pytest.mark.parametrize("size", [MAX_FRAME, MAX_FRAME + 1])
def test_a_frame_is_decompressed_whole_up_to_a_limit(tmp_path: Path, size: int) -> None:
    one = zstandard.ZstdCompressor().compress(bytes(size))
    assert ask(tmp_path, one, one) == (Frames(size, sizes(one, one)) if size == MAX_FRAME else None)


@pytest.mark.parametrize(
    "data",
    [
        b"no zstd",
        b"\x53abc" + bytes(4),  # the first byte of a frame that is skipped
        b"\x43\x2a\x4d\x18" + bytes(4),  # and the others
        FOUR + b"\n",
        FOUR + b"\x00" * 40,
        MAGIC + b"\x20",
    ],
)
def test_what_is_no_zstd(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(FrameFault, match="it is no zstd data"):
        ask(tmp_path, data)


@pytest.mark.parametrize("cut", range(6, len(FOUR)))
def test_what_is_cut_off(tmp_path: Path, cut: int) -> None:
    with pytest.raises(FrameFault, match="ends inside a zstd frame"):
        ask(tmp_path, FOUR, FOUR[:cut])
    with pytest.raises(FrameFault, match="ends inside a zstd frame"):
        ask(tmp_path, FOUR[:cut])


@pytest.mark.parametrize("step", [1, 2, 3, 5, 17, 18, 19, 1000])
def test_frames_that_pass_by_in_pieces(step: int) -> None:
    pack = zstandard.ZstdCompressor(write_checksum=True)
    frames = [pack.compress(bytes([n]) * 300) for n in range(4)] + [pack.compress(b"end")]
    for parts, wanted in (
        (frames, Frames(300, sizes(*frames))),
        ([*frames, skippable(b"note")], None),
        ([FOUR, FOUR, THREE], Frames(4, sizes(FOUR, FOUR, THREE))),
        ([FOUR], Frames(4, sizes(FOUR))),
        ([], None),
    ):
        data = b"".join(parts)
        scan = FrameScan()
        for at in range(0, len(data), step):
            scan.feed(memoryview(data)[at : at + step])
        assert scan.close() == wanted
    whole = b"".join(frames)
    for cut in (1, 2, 5, 20):
        scan = FrameScan()
        with pytest.raises(FrameFault, match="zstd"):
            for at in range(0, len(whole) - cut, step):
                scan.feed(whole[at : min(at + step, len(whole) - cut)])
            scan.close()


def test_what_may_allow_random_access_shows_at_its_start() -> None:
    assert may_be_frames(FOUR[:HEADER])
    large = frame(b"", MAX_FRAME + 1, 4)
    for start in (UNKNOWN, skippable(b"x" * 20), large, frame(b"", 0), b"", MAGIC, b"tar" * 9):
        assert not may_be_frames(start[:HEADER])


def test_a_frame_may_end_in_an_empty_block(tmp_path: Path) -> None:
    one = frame(block(RAW, b"a", last=False) + block(RAW, b""), 1)
    assert zstandard.ZstdDecompressor().decompress(one) == b"a" and len(one) < HEADER
    assert ask(tmp_path, one) == Frames(1, sizes(one))


@pytest.mark.parametrize("left", [1, 2])
def test_of_a_blocks_header_that_is_cut_off_nothing_is_believed(tmp_path: Path, left: int) -> None:
    whole = frame(block(RESERVED, b""), 2)
    with pytest.raises(FrameFault, match="ends inside a zstd frame"):
        ask(tmp_path, whole[: len(whole) - 3 + left])


@pytest.mark.parametrize(
    ("size", "may"), [(0, False), (1, True), (MAX_FRAME, True), (MAX_FRAME + 1, False)]
)
def test_a_start_tells_whether_the_first_frame_is_of_a_size_to_be_read_whole(
    size: int, may: bool
) -> None:
    assert may_be_frames(frame(block(RAW, b""), size, 4)) is may


def test_the_shortest_header_is_enough_to_tell() -> None:
    assert may_be_frames(FOUR[:6]) and not may_be_frames(FOUR[:5])
