"""A stand-in for a Dagger session: GraphQL over HTTP, as the library speaks it; runs steps here.

It takes the place of what `dagger session` serves: POST /query with the token as the user's name.
Containers are directories of this machine, execs are subprocesses, results are kept by content as
an engine keeps them. It knows only the part of the schema that is used, and refuses any request
whose shape is not among `accepted.txt`: those were seen to be taken by a real engine.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from graphql import GraphQLError, build_schema, graphql_sync

from tests.engines.shapes import ACCEPTED, shapes

TOKEN = "a-token"
SCHEMA = (Path(__file__).parent / "schema.graphql").read_text(encoding="utf-8")
# Runs a step with the places of the container below the directory that is given.
_STEP = """
import sys
from pipeline.steps import contained
for name in ("FILES", "STEPS", "OUT"):
    setattr(contained, name, sys.argv[1] + getattr(contained, name))
sys.exit(contained.main())
"""


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class _Object:
    """Something with an id; ids are looked up again by `Session.load`."""

    kind = ""

    def __init__(self, session: StandIn):
        self.session = session

    def id(self, info: Any = None) -> str:
        name = f"{self.kind}:{len(self.session.objects)}"
        self.session.objects[name] = self
        return name

    sync = id


class File(_Object):
    kind = "File"

    def __init__(self, session: StandIn, path: Path):
        super().__init__(session)
        if not path.is_file():
            raise GraphQLError(f"{path.name}: no such file or directory")
        self.path = path
        self.digest = hashlib.sha256(path.read_bytes()).hexdigest()

    def export(self, info: Any, path: str, **_: Any) -> str:
        self.session.exported.append(self.digest)
        shutil.copyfile(self.path, path)
        return path


class Directory(_Object):
    kind = "Directory"

    def __init__(self, session: StandIn, path: Path | None = None):
        super().__init__(session)
        self.path = path or session.new()
        files = sorted(p for p in self.path.rglob("*") if p.is_file())
        self.digest = _digest(
            *(
                f"{p.relative_to(self.path)} {hashlib.sha256(p.read_bytes()).hexdigest()}"
                for p in files
            )
        )

    def _copy(self) -> Path:
        path = self.session.new()
        shutil.copytree(self.path, path, copy_function=os.link, dirs_exist_ok=True)
        return path

    def file(self, info: Any, path: str) -> File:
        return File(self.session, self.path / path)

    def withFile(self, info: Any, path: str, source: str, **_: Any) -> Directory:
        copy = self._copy()
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        os.link(self.session.load(source).path, copy / path)
        return Directory(self.session, copy)


class Host(_Object):
    kind = "Host"

    def directory(self, info: Any, path: str, include: list[str], **_: Any) -> Directory:
        copy = self.session.new()
        for found in Path(path).rglob("*"):
            name = found.relative_to(path).as_posix()
            if found.is_file() and any(fnmatch(name, i.removeprefix("**/")) for i in include):
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(found, copy / name)
                self.session.sent += found.stat().st_size
        return Directory(self.session, copy)

    def file(self, info: Any, path: str, **_: Any) -> File:
        return File(self.session, Path(path))


@dataclass(frozen=True)
class Container:
    session: StandIn
    key: str = ""
    env: dict[str, str] = field(default_factory=dict)
    volatile: dict[str, str] = field(default_factory=dict)
    mounts: dict[str, Any] = field(default_factory=dict)
    printed: str = ""

    kind = "Container"

    def id(self, info: Any = None) -> str:
        name = f"{self.kind}:{len(self.session.objects)}"
        self.session.objects[name] = self
        return name

    sync = id

    def stdout(self, info: Any) -> str:
        return self.printed

    def directory(self, info: Any, path: str, **_: Any) -> Directory:
        found: Directory = self.mounts[path]
        return found

    def withEnvVariable(self, info: Any, name: str, value: str) -> Container:
        return replace(self, env={**self.env, name: value})

    def withVolatileVariable(self, info: Any, name: str, value: str) -> Container:
        return replace(self, volatile={**self.volatile, name: value})

    def withMountedDirectory(self, info: Any, path: str, source: str) -> Container:
        return replace(self, mounts={**self.mounts, path: self.session.load(source)})

    def withExec(self, info: Any, args: list[str], stdin: str = "") -> Container:
        mounts = [f"{path} {mount.digest}" for path, mount in sorted(self.mounts.items())]
        env = [f"{name}={value}" for name, value in sorted(self.env.items())]
        key = _digest(self.key, *args, stdin, *env, *mounts)
        with self.session.lock(key):
            if key not in self.session.results:
                self.session.results[key] = self._run(args, stdin)
        mounts_after, printed = self.session.results[key]
        return replace(self, key=key, mounts=mounts_after, printed=printed)

    def _run(self, args: list[str], stdin: str) -> tuple[dict[str, Any], str]:
        self.session.ran.append(args)
        root = self.session.new()
        for path, mount in self.mounts.items():
            place = root / path.removeprefix("/")
            shutil.copytree(mount.path, place, copy_function=os.link, dirs_exist_ok=True)
        if args[:2] == ["python3", "-m"] and args[2] != "compileall":
            command = [sys.executable, "-c", _STEP, str(root)]
        else:
            mapped = [f"{root}{arg}" if arg.startswith("/job/") else arg for arg in args]
            if not any(str(root) in arg for arg in mapped):
                return self.mounts, ""  # the toolbox's own libraries: those of this Python
            command = [sys.executable if arg == "python3" else arg for arg in mapped]
        env = {name: f"{root}{v}" if v.startswith("/job/") else v for name, v in self.env.items()}
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={"PATH": os.environ["PATH"], **env, **self.volatile},
            cwd=root,
            check=False,
        )
        if done.returncode or self.session.break_exec:
            raise GraphQLError(
                f"process exited with code {done.returncode}",
                extensions={
                    "_type": "EXEC_ERROR",
                    "cmd": args,
                    "exitCode": done.returncode,
                    "stdout": done.stdout,
                    "stderr": self.session.break_exec or done.stderr,
                },
            )
        mounts = {
            path: Directory(self.session, root / path.removeprefix("/")) for path in self.mounts
        }
        return mounts, done.stdout


setattr(
    Container,
    "import",
    lambda self, info, source, **_: replace(self, key=self.session.load(source).digest),
)


class Root:
    """The fields of Query."""

    def __init__(self, session: StandIn):
        self._session = session

    def version(self, info: Any) -> str:
        return "v0.21.8"

    def defaultPlatform(self, info: Any) -> str:
        return self._session.platform

    def container(self, info: Any, platform: str) -> Container:
        return Container(self._session)

    def directory(self, info: Any) -> Directory:
        return Directory(self._session)

    def host(self, info: Any) -> Host:
        return Host(self._session)

    def node(self, info: Any, id: str) -> Any:
        return self._session.load(id)

    def loadDirectoryFromID(self, info: Any, id: str) -> Any:
        return self._session.load(id)


def _field(parent: Any, info: Any, /, **arguments: Any) -> Any:
    return getattr(parent, info.field_name)(info, **arguments)


class StandIn:
    """The state of the stand-in, which may serve one session after another.

    `ran` are the commands of execs that were not cached; `sent` counts the bytes that came from
    this machine, `exported` are the sha256 of files that went back to it, `requests` counts
    what was asked. Set `break_exec` and
    every exec fails with that on its stderr; `hang_up` and the server closes the connection of the
    next request.
    """

    def __init__(self, place: Path):
        self._place = place
        self._numbers = iter(range(1 << 40))
        self._guard = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self.objects: dict[str, Any] = {}
        self.results: dict[str, tuple[dict[str, Any], str]] = {}
        self.platform = "linux/arm64"
        self.forget()
        self.schema = build_schema(SCHEMA)
        self.schema.type_map["Node"].resolve_type = lambda found, *_: found.kind  # type: ignore[attr-defined]

    def forget(self) -> None:
        """Count anew, and behave; what was made stays."""
        self.ran: list[list[str]] = []
        self.refused: list[str] = []
        self.exported: list[str] = []
        self.sent = 0
        self.requests = 0
        self.break_exec = ""
        self.hang_up = False

    def new(self) -> Path:
        """A fresh directory."""
        with self._guard:
            path = self._place / str(next(self._numbers))
        path.mkdir(parents=True)
        return path

    def lock(self, key: str) -> threading.Lock:
        """One exec of a key at a time, as an engine has it."""
        with self._guard:
            return self._locks.setdefault(key, threading.Lock())

    def load(self, name: str) -> Any:
        """The object of an id."""
        return self.objects[name]

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """Answer a request, unless a real engine was never seen to take its like."""
        self.requests += 1
        if "__schema" not in query:
            unknown = shapes(query) - ACCEPTED
            if unknown:
                self.refused += sorted(unknown)
                return {"errors": [{"message": f"never seen: {sorted(unknown)[0]}"}]}
        result = graphql_sync(
            self.schema, query, Root(self), variable_values=variables, field_resolver=_field
        )
        document: dict[str, Any] = {"data": result.data}
        if result.errors:
            document["errors"] = [error.formatted for error in result.errors]
        return document


@contextmanager
def serve(standin: StandIn) -> Iterator[int]:
    """Serve on a port of the loopback, as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if standin.hang_up:
                self.close_connection = True
                return
            expected = "Basic " + base64.b64encode(f"{TOKEN}:".encode()).decode()
            status, answer = 401, {"errors": [{"message": "unauthorized"}]}
            if self.headers.get("Authorization") == expected and self.path == "/query":
                status = 200
                answer = standin.answer(body["query"], body.get("variables") or {})
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
