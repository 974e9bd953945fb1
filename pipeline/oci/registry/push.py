"""Upload a blob: not at all, mounted, at once, or in chunks that can be taken up again.

distribution-spec 1.1, "Pushing blobs". A commit whose answer was lost is seen by asking for the
blob; a registry that takes no chunks gets the blob in one piece. What was written is read back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from urllib.parse import quote, urljoin

import requests

from pipeline.errors import OutsideTrouble, Refusal
from pipeline.oci.registry.authority import Scope
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.piece import Piece
from pipeline.oci.registry.pull import reread_blob
from pipeline.oci.registry.sessions import Session, Sessions
from pipeline.oci.registry.urls import same_origin
from pipeline.oci.registry.wire import RETRIED

CHUNK = 64 << 20
_OCTETS = "application/octet-stream"
_RANGE = re.compile(r"(?:bytes=)?0-([0-9]+)")
Moved = Callable[[int], None]


class How(Enum):
    """What became of a blob; the value is for people."""

    THERE = "there already"
    MOUNTED = "mounted"
    SENT = "sent"


class _Broken(Exception):
    """The upload cannot go on as it is; says why."""


def push_blob(
    repository: Repository,
    digest: str,
    place: Callable[[], Path],
    size: int,
    *,
    moved: Moved,
    sources: Sequence[str] = (),
    sessions: Sessions | None = None,
    chunk: int = CHUNK,
) -> How:
    """Bring a blob into the repository.

    `place` says where its bytes lie; it is asked only if they must be sent. `sources` are
    repositories of the same registry that may have it. `moved` is called with the bytes that are
    done, negative when some must be sent again. What was sent, in this run or in one that was cut
    off before it had done so, is read back whole. Raises Refusal when the file, or what the
    registry then serves, is not what the digest says, OutsideTrouble.
    """
    sessions = sessions or Sessions(None)
    if repository.blob_size(digest) == size:
        moved(size)
        if sessions.knows(repository.reference, digest):
            with sessions.of(repository.reference, digest):
                reread_blob(repository, digest, size)
        return How.THERE
    location = ""
    for source in sources:
        mounted, location = _mount(repository, digest, source)
        if mounted and repository.blob_size(digest) == size:
            moved(size)
            return How.MOUNTED
        if location:
            break
    path = place()
    with sessions.of(repository.reference, digest) as session:
        if location:
            session.remember(location)
        _Upload(repository, digest, path, size, moved, session, chunk).run()
        reread_blob(repository, digest, size)
    return How.SENT


def _mount(repository: Repository, digest: str, source: str) -> tuple[bool, str]:
    """Return whether the blob was mounted, and the upload that was opened instead, "" for none.

    Whatever is in the way of a mount, a plain upload does the same.
    """
    path = f"blobs/uploads/?mount={digest}&from={quote(source, safe='')}"
    try:
        answer = repository.send("POST", path, also=[Scope(source, "pull")])
    except OutsideTrouble:
        return False, ""
    with answer:
        if answer.status_code == 201:
            return True, ""
        opened = answer.status_code == 202
        return False, _location(answer) if opened else ""


def _location(answer: requests.Response) -> str:
    return urljoin(answer.url, answer.headers.get("Location", ""))


class _Upload:
    """One blob on its way; `_sent` bytes are in the registry's hands."""

    def __init__(
        self,
        repository: Repository,
        digest: str,
        path: Path,
        size: int,
        moved: Moved,
        session: Session,
        chunk: int,
    ):
        self._repository, self._digest, self._path = repository, digest, path
        self._size, self._moved, self._session = size, moved, session
        self._chunk = chunk
        self._sent = 0
        self._reported = 0

    def run(self) -> None:
        wire = self._repository.wire
        pause, left = wire.patience.first_pause, wire.patience.tries
        if self._session.location:
            self._take_up()
        while True:
            before = self._sent
            try:
                self._go_on()
                return
            except _Broken as error:
                if self._repository.blob_size(self._digest) == self._size:
                    break  # the commit was carried out, its answer lost
                left = wire.patience.tries if self._sent > before else left - 1
                if not left:
                    raise OutsideTrouble(
                        f"{self._repository.reference.name}: upload of {self._digest}: {error}",
                        hint="run it again: what is there is not sent twice",
                    ) from error
                if wire.stop.wait(pause):
                    wire.check()
                pause = min(pause * 2, wire.patience.all_pauses / wire.patience.tries)
                self._take_up()
        self._at(self._size)

    def _go_on(self) -> None:
        if not self._session.location:
            self._open()
        if self._size <= self._chunk and not self._sent:
            self._commit(Piece(self._path, 0, self._size, self._count, self._repository.wire.check))
            return
        while self._sent < self._size:
            self._patch()
        self._commit(None)

    def _open(self) -> None:
        answer = self._repository.send("POST", "blobs/uploads/")
        if answer.status_code != 202:
            raise self._repository.fail(answer, f"upload of {self._digest}")
        answer.close()
        self._at(0)
        self._session.remember(_location(answer))
        least = answer.headers.get("OCI-Chunk-Min-Length", "")
        if least.isdigit():
            self._chunk = max(self._chunk, int(least))

    def _patch(self) -> None:
        end = min(self._sent + self._chunk, self._size)
        headers = {"Content-Type": _OCTETS, "Content-Range": f"{self._sent}-{end - 1}"}
        piece = Piece(
            self._path, self._sent, end - self._sent, self._count, self._repository.wire.check
        )
        answer = self._send("PATCH", self._session.location, headers, piece)
        with answer:
            if answer.status_code != 202:
                if answer.status_code in (400, 404, 405, 416, 501) and not self._sent:
                    self._chunk = self._size  # it may take no chunks
                raise self._no(answer)
            self._session.remember(_location(answer))
            taken = _RANGE.fullmatch(answer.headers.get("Range", ""))
            self._at(int(taken[1]) + 1 if taken else end)

    def _commit(self, whole: Piece | None) -> None:
        joint = "&" if "?" in self._session.location else "?"
        url = f"{self._session.location}{joint}digest={quote(self._digest, safe='')}"
        headers = {"Content-Type": _OCTETS} if whole else {"Content-Length": "0"}
        body = whole if whole and self._size else b""
        with self._send("PUT", url, headers, body) as answer:
            if answer.status_code not in (201, 204):
                raise self._no(answer)
        self._at(self._size)

    def _send(
        self, method: str, url: str, headers: dict[str, str], body: Piece | bytes
    ) -> requests.Response:
        try:
            return self._repository.send(method, url, headers=headers, body=body)
        except OutsideTrouble as error:
            raise _Broken(error.message) from error
        finally:
            if isinstance(body, Piece):
                body.close()

    def _no(self, answer: requests.Response) -> Exception:
        """Return the error for an answer that is no success: final, or worth another try."""
        status = answer.status_code
        if status in (403, 413, 507):
            return self._repository.fail(answer, f"upload of {self._digest}")
        if status == 400:
            self._check_file()  # it may say that the bytes are not those of the digest
        if status not in RETRIED and status != 401:
            self._session.location = ""
        return _Broken(self._repository.wire.describe(answer))

    def _take_up(self) -> None:
        """Ask how much of the upload is there; without an answer it starts anew."""
        location, self._session.location = self._session.location, ""
        if not location or not same_origin(location, self._repository.url):
            self._at(0)
            return
        with self._repository.send("GET", location) as answer:
            taken = _RANGE.fullmatch(answer.headers.get("Range", ""))
            if answer.status_code not in (202, 204) or not taken:
                self._at(0)
                return
            # "0-0" is said of one byte, and of none.
            self._at(int(taken[1]) + 1 if int(taken[1]) else 0)
            self._session.remember(_location(answer) if "Location" in answer.headers else location)

    def _count(self, size: int) -> None:
        self._reported += size
        self._moved(size)

    def _at(self, offset: int) -> None:
        """Correct the count: so many bytes are in the registry's hands."""
        self._sent = offset
        self._count(offset - self._reported)

    def _check_file(self) -> None:
        with self._path.open("rb") as file:
            found = "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
        if found != self._digest:
            raise Refusal(
                f"{self._path}: holds {found}, not what its name says",
                hint="remove it and build again; nothing of it was kept by the registry",
            )
