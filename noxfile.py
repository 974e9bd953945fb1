"""Sessions: each verb is a thin door to `python -m pipeline VERB`; the rest is for developers.

nox -s build                      the chain, from the lock to dist/
nox -s build -- --to v3           what follows -- goes to the verb
nox -s tests                      the test suite
"""

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.5"
nox.options.sessions = ["tests", "lint", "typecheck"]
nox.options.reuse_existing_virtualenvs = True

VERBS = Path(".nox", "verbs")
STAMP = "sm121-chain-requirements"


def locked(session: nox.Session, *names: str) -> None:
    """Install requirements/NAME.txt into the session's environment."""
    if not Path(session.virtualenv.location, STAMP).is_file():
        session.log("first use: installing %s", ", ".join(names))
    install(Path(session.bin, "python"), Path(session.virtualenv.location), *names)


def install(python: Path, environment: Path, *names: str) -> None:
    """Install requirements/NAME.txt, every file by its hash; only when the lock has changed."""
    files = [Path("requirements", f"{name}.txt") for name in names]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    stamp = environment / STAMP
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--require-hashes", "--only-binary=:all:"]
    for file in files:
        if subprocess.run([*command, "-r", file], stdout=sys.stderr, check=False).returncode:
            raise SystemExit(f"nox: {file} could not be installed; what pip said is above")
    stamp.write_text(digest, encoding="utf-8")


def verb(session: nox.Session, name: str) -> None:
    """Run a verb, and end nox with the verb's own exit status.

    session.run would merge stderr into stdout and turn every failure into status 1. The verbs share
    one environment: a session's own would be the same bytes once more for each of them.
    """
    python = VERBS / "bin" / "python"
    VERBS.parent.mkdir(exist_ok=True)
    with VERBS.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two first uses at once
        if not (VERBS / STAMP).exists() or not python.exists():
            session.log("first use: making the verbs' environment in %s", VERBS)
            made = subprocess.run(
                [sys.executable, "-m", "virtualenv", "--quiet", "--clear", VERBS], check=False
            )
            if made.returncode:
                raise SystemExit(f"nox: {VERBS} could not be made; what virtualenv said is above")
        install(python, VERBS, "run")
    try:
        done = subprocess.run([python, "-m", "pipeline", name, *session.posargs], check=False)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    if done.returncode:
        raise SystemExit(done.returncode)


@nox.session(venv_backend="none")
def build(session: nox.Session) -> None:
    """Build the chain into dist/: base and stages as arm64 OCI images."""
    verb(session, "build")


@nox.session(venv_backend="none")
def show(session: nox.Session) -> None:
    """Print what a build would do: parents, pins that move, patches, and why."""
    verb(session, "show")


@nox.session(venv_backend="none")
def lock(session: nox.Session) -> None:
    """Resolve, check, explain or export the lock (pins.toml)."""
    verb(session, "lock")


@nox.session(venv_backend="none")
def fetch(session: nox.Session) -> None:
    """Download every locked file into the cache, verified."""
    verb(session, "fetch")


@nox.session(venv_backend="none")
def audit(session: nox.Session) -> None:
    """Audit one image against the lock."""
    verb(session, "audit")


@nox.session(venv_backend="none")
def drift(session: nox.Session) -> None:
    """Show what moved between two images, or along a whole line."""
    verb(session, "drift")


@nox.session(venv_backend="none")
def patches(session: nox.Session) -> None:
    """List, check, port, capture or apply the patches."""
    verb(session, "patches")


@nox.session(venv_backend="none")
def push(session: nox.Session) -> None:
    """Push an image into a repository by digest; no tag."""
    verb(session, "push")


@nox.session(venv_backend="none")
def load(session: nox.Session) -> None:
    """Load an image into docker, podman or nerdctl, here or on a host."""
    verb(session, "load")


@nox.session(venv_backend="none")
def fingerprint(session: nox.Session) -> None:
    """Print the identity of images: equal for equal content."""
    verb(session, "fingerprint")


@nox.session(venv_backend="none")
def compare(session: nox.Session) -> None:
    """Compare one image on several hosts."""
    verb(session, "compare")


@nox.session(venv_backend="none")
def verify(session: nox.Session) -> None:
    """Compare what is published with what the lock builds."""
    verb(session, "verify")


@nox.session(venv_backend="none")
def smoke(session: nox.Session) -> None:
    """Run the GPU probes in an image, on one or several hosts."""
    verb(session, "smoke")


@nox.session(venv_backend="none")
def tag(session: nox.Session) -> None:
    """Write the tags of an image that a smoke report proves."""
    verb(session, "tag")


@nox.session(venv_backend="none")
def release(session: nox.Session) -> None:
    """Build, audit, push, smoke, tag and verify a stage."""
    verb(session, "release")


@nox.session(venv_backend="none")
def doctor(session: nox.Session) -> None:
    """Tell what this machine can do: engines, and why not the others."""
    verb(session, "doctor")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the test suite."""
    locked(session, "run", "test")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Run the property tests of every reader with many more examples (40 minutes on two cores)."""
    locked(session, "run", "test")
    session.run(
        "python", "-m", "pytest", "tests/hostile", "--hypothesis-profile=fuzz", *session.posargs
    )


@nox.session
def faults(session: nox.Session) -> None:
    """Kill builds and fetches at 100 random points each, and fill disks; prints the seeds."""
    locked(session, "run", "test")
    env = {"SM121_CHAIN_FAULT_POINTS": "100"}
    session.run("python", "-m", "pytest", "tests/faults", "-s", *session.posargs, env=env)


@nox.session
def mutation(session: nox.Session) -> None:
    """Change the program in one place after another; list the changes that no test notices."""
    locked(session, "run", "test", "mutation")
    session.run("python", "-m", "checks.mutation", *session.posargs)


@nox.session
def import_check(session: nox.Session) -> None:
    """Unpack an image and import its patched modules in it, under qemu-user (root; by hand)."""
    locked(session, "run")
    session.run("python", "-m", "checks.imports", *session.posargs)


@nox.session
def compile_check(session: nox.Session) -> None:
    """Compile FlashInfer's MLA and a CuTeDSL kernel for sm_121a, without a GPU (by hand)."""
    locked(session, "run")
    session.run("python", "-m", "checks.compiling", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and format with ruff."""
    locked(session, "run")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def typecheck(session: nox.Session) -> None:
    """Check types, strictly."""
    locked(session, "run", "lint")
    session.run("python", "-m", "mypy")


@nox.session
def bench(session: nox.Session) -> None:
    """Measure the chain beside a bare loop over the same bytes: a table, and JSON on stdout."""
    locked(session, "run")
    session.run("python", "-m", "bench.chain", *session.posargs)


@nox.session
def bench_dagger(session: nox.Session) -> None:
    """Measure the chain on a Dagger engine beside the local one and bare transfers."""
    locked(session, "run")
    session.run("python", "-m", "bench.dagger", *session.posargs)


@nox.session
def bench_drift(session: nox.Session) -> None:
    """Measure audit and drift beside plain decompression and pip: a table, and JSON on stdout."""
    locked(session, "run")
    session.run("python", "-m", "bench.drift", *session.posargs)


@nox.session
def bench_registry(session: nox.Session) -> None:
    """Measure push and pull beside skopeo, through a registry on the loopback."""
    locked(session, "run")
    session.run("python", "-m", "bench.registry", *session.posargs)


@nox.session
def reproduce(session: nox.Session) -> None:
    """Build in unlike environments and compare; names every byte that differs."""
    locked(session, "run")
    session.run("python", "-m", "bench.reproduce", *session.posargs)


@nox.session
def golden(session: nox.Session) -> None:
    """State the lines of a build anew (tests/golden, README), once you know why they moved."""
    locked(session, "run")
    command = [str(Path(session.bin, "python")), "-m", "pipeline"]
    for name in ("build", "show"):
        done = subprocess.run([*command, name], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)
        Path("tests", "golden", f"{name}.txt").write_text(done.stdout, encoding="utf-8")
    readme, lines = Path("README.md"), Path("tests", "golden", "build.txt")
    head, _, rest = readme.read_text(encoding="utf-8").partition("```text\n")
    tail = rest.partition("```\n")[2]
    text = f"{head}```text\n{lines.read_text(encoding='utf-8')}```\n{tail}"
    readme.write_text(text, encoding="utf-8")


@nox.session
def requirements(session: nox.Session) -> None:
    """Pin this project's own dependencies anew: requirements/*.txt, with hashes, naming no host."""
    session.install("uv")
    for name, groups in (
        ("run", ()),
        ("test", ("test",)),
        ("lint", ("lint",)),
        ("mutation", ("mutation",)),
        ("nox", ("nox",)),
    ):
        extra = [f"--group={group}" for group in groups]
        # The groups are installed beside `run`, so they may not want other versions.
        source = ["--constraint=requirements/run.txt"] if groups else ["pyproject.toml"]
        if name == "mutation":  # beside the tests' too
            source.append("--constraint=requirements/test.txt")
        session.run(
            "uv",
            "pip",
            "compile",
            "--universal",
            "--generate-hashes",
            "--no-header",
            "--python-version=3.11",
            f"--output-file=requirements/{name}.txt",
            *extra,
            *source,
            external=True,
        )


if __name__ == "__main__":
    sys.exit("run me with nox: `nox -l` lists the sessions")
