"""Findings in full: what is said of what, where, by which layer, and what to do about it."""

from __future__ import annotations

import hashlib
import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.audit.expectation import LedgerEntry, PatchExpectation, Probe
from pipeline.audit.run import audit
from tests.audit.images import GONE, SITE, Content, compiled, distribution, expect, image
from tests.audit.told import in_full, told
from tests.wheels.makewheel import X86_64, elf

VENV = "opt/venv/lib/python3.12/site-packages"


def test_wrong_arch_names_the_file_and_not_its_directories(tmp_path: Path) -> None:
    a = distribution("a", "1", record="a/b/_c.so,,\na-1.dist-info/RECORD,,\n")
    assert told(image(tmp_path, a, {f"{SITE}/a/b/_c.so": elf(X86_64)}), "wrong-arch") == [
        "error a: _c.so is a 64-bit little-endian binary for e_machine 62 (x86-64), the image is "
        "aarch64 (183)\n"
        f"{SITE}/a/b/_c.so @1\n"
        "fix: install the build for this machine, or name the file as known with a reason"
    ]


def test_stale_bytecode_in_every_form(tmp_path: Path) -> None:
    old, new = "LIMIT = 1\n", "LIMIT = 2\n"
    sources = {"a/b.py": old, "a/c.py": old, "a/d.py": old}
    base: dict[str, Content] = {
        **distribution("a", "1", sources),
        # nothing to believe, in a cache: passed over, and what comes after it is looked at
        f"{SITE}/a/__pycache__/a.cpython-312.pyc": compiled(old),
        f"{SITE}/a/__pycache__/b.cpython-312.pyc": compiled(old),
        f"{SITE}/a/__pycache__/c.cpython-312.pyc": compiled(new, hashed="unchecked"),
        f"{SITE}/a/__pycache__/d.cpython-312.pyc": compiled(old, mtime=7),
        "srv/tool.py": old,
        "srv/__pycache__/tool.cpython-312.pyc": b"\0",
        f"{SITE}/a/gone.pyc": compiled(old),
    }
    assert told(image(tmp_path, base, {f"{SITE}/a/b.py": new}), "stale-bytecode") == [
        "error a: the compiled file of b.py is of an earlier source, and Python believes it: its "
        "time and size fit\n"
        f"{SITE}/a/__pycache__/b.cpython-312.pyc @1\n"
        "fix: remove the compiled file in the layer that changes its source; Python makes it again",
        "error a: the compiled file of c.py is of an earlier source, and Python believes it: it "
        "says not to check\n"
        f"{SITE}/a/__pycache__/c.cpython-312.pyc @0\n"
        "fix: remove the compiled file in the layer that changes its source; Python makes it again",
        "warning gone.pyc: a compiled file without its source, which no RECORD names: it can be "
        f"imported\n{SITE}/a/gone.pyc @0\nfix: remove it",
        "note a: 1 compiled file is of other sources; Python sees that, and compiles at every "
        f"start where it cannot write\n{SITE}/a/__pycache__/d.cpython-312.pyc",
        # what no distribution has is named by its own path
        "note srv/tool.py: 1 compiled file is of other sources; Python sees that, and compiles at "
        "every start where it cannot write\nsrv/__pycache__/tool.cpython-312.pyc",
    ]


FAMILY = ("nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-base", "nvidia-cutlass-dsl-libs-cu13")
MIXED = "fix: install all of them at the locked version, without their dependencies"


def at(version: str, *names: str) -> dict[str, Content]:
    return {path: data for name in names for path, data in distribution(name, version).items()}


@pytest.mark.parametrize("order", [1, -1])
def test_a_family_that_has_no_one_version_says_nothing_against_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int
) -> None:
    rule = importlib.import_module("pipeline.audit.rules.families")
    monkeypatch.setattr(rule, "FAMILIES", rule.FAMILIES[::order])
    both = at("0.6.18", "flashinfer-python") | at("3.6.0", "triton")
    view = image(tmp_path, both, at("0.6.17", "flashinfer-cubin"), at("3.5.0", "tokenspeed-triton"))
    assert told(view, "family-mixed") == [
        "error flashinfer: the family is at 2 versions: 0.6.18 (flashinfer-python) and 0.6.17 "
        "(flashinfer-cubin); 0.6.18 was left behind\n"
        f"{SITE}/flashinfer_cubin-0.6.17.dist-info @1\n{MIXED}"
    ]


def test_a_family_in_three_parts_is_told_by_the_part_that_came_last(tmp_path: Path) -> None:
    view = image(tmp_path, at("4.6.2", FAMILY[0]), at("4.7.0", FAMILY[1]), at("4.8.0", FAMILY[2]))
    # The last one was moved from what the lock has; who asks for what all have is no cause, nor who
    # asks for one version of many, nor a member of the family itself.
    wants = (
        distribution("loose", "1", requires=["nvidia-cutlass-dsl>=4.7"])
        | distribution("exact", "1", requires=["nvidia-cutlass-dsl-libs-cu13==4.8.0"])
        | distribution("any", "1", requires=["nvidia-cutlass-dsl-libs-cu13==4.*"])
    )
    view = image(
        tmp_path, at("4.6.2", FAMILY[0]), at("4.7.0", FAMILY[1]), at("4.8.0", FAMILY[2]) | wants
    )
    head = (
        f"error nvidia-cutlass-dsl: the family is at 3 versions: 4.6.2 ({FAMILY[0]}) and 4.7.0 "
        f"({FAMILY[1]}) and 4.8.0 ({FAMILY[2]})"
    )
    cause = f"exact 1 wants {FAMILY[2]}==4.8.0"
    path = f"{SITE}/nvidia_cutlass_dsl_libs_cu13-4.8.0.dist-info @2\n{MIXED}"
    assert told(view, "family-mixed", pins=dict.fromkeys(FAMILY, "4.7.5")) == [
        f"{head}; it was moved up from 4.7.5, half of it was left behind; {cause}\n{path}"
    ]
    pins = {FAMILY[0]: "4.6.2", FAMILY[1]: "4.7.0", FAMILY[2]: "4.8.0"}
    assert told(view, "family-mixed", pins=pins) == [
        f"{head}; 4.6.2 was left behind; {cause}\n{path}"
    ]


def test_a_member_of_a_family_is_no_cause_of_its_mix(tmp_path: Path) -> None:
    main = distribution(FAMILY[0], "4.7.0", requires=[f"{FAMILY[1]}==4.7.0"])
    (finding,) = told(image(tmp_path, main, at("4.6.2", FAMILY[1])), "family-mixed")
    assert "wants" not in finding


def test_requirements_say_what_is_there_and_how_to_go_on(tmp_path: Path) -> None:
    a = distribution("a", "1", requires=["gone", "b==2", "c==2"])
    view = image(tmp_path, a, distribution("b", "1") | distribution("c", "1"))
    ledger = (LedgerEntry("c==1", ("a 1 wants ==2",), "c 2 is broken"),)
    fix = "fix: move the pin, or enter the override with its reason in the lock's ledger"
    assert told(view, "requirement-unsatisfied", ledger=ledger) == [
        f"error a: wants b==2, 1 is there (new)\n @1\n{fix}",
        f"error a: wants gone, it is not there (new)\n @0\n{fix}",
        "note a: wants c==2, 1 is there (intended)\n @1\nbecause: c 2 is broken",
    ]


def test_pins_say_what_differs_and_who_wants_it_so(tmp_path: Path) -> None:
    wants = (
        distribution("one", "1", requires=["moved==2"])
        | distribution("both", "1", requires=["moved>=1"])
        | distribution("neither", "1", requires=["moved==3"])
    )
    found = distribution("Moved", "2") | distribution("down", "1") | distribution("odd", "2005a")
    view = image(tmp_path, wants, found | distribution("built", "1+cu132"))
    pins = {"moved": "1", "down": "2", "odd": "2004d", "built": "1+cu130"}
    pins |= {"one": "1", "both": "1", "neither": "1"}
    fix = "fix: install the locked wheel last, without its dependencies"

    def all_of(*rules: str) -> list[str]:
        return [text for rule in rules for text in told(view, rule, pins=pins)]

    assert all_of("pin-upgraded", "pin-downgraded", "pin-changed", "build-changed") == [
        "error moved: Moved 2 is newer than the locked moved 1; one 1 wants moved==2\n"
        f"{SITE}/Moved-2.dist-info @1\n{fix}",
        f"error down: down 1 is older than the locked down 2\n{SITE}/down-1.dist-info @1\n{fix}",
        f"error odd: odd 2005a is not the locked odd 2004d\n{SITE}/odd-2005a.dist-info @1\n{fix}",
        "error built: built 1+cu132 differs only in its local part from the locked built 1+cu130\n"
        f"{SITE}/built-1+cu132.dist-info @1\n{fix}",
    ]


def test_pins_that_are_missing_or_that_nobody_asked_for(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("a", "1") | distribution("free", "7"))
    locked = expect({"Gone_x": "2", "free": "1"}).distributions
    assert locked is not None
    free = replace(locked[1], version=None)  # a lock may leave the version open
    gone = replace(locked[0], name="open", version=None)
    expected = replace(expect(), distributions=(locked[0], free, gone))
    fix = "fix: find the step that removed it, or take it out of the lock"
    report = audit(view, expected)
    assert in_full(report, "distribution-missing") == [
        f"error gone-x: the lock has Gone_x 2, the image has none\n{fix}",
        f"error open: the lock has open, the image has none\n{fix}",
    ]
    assert in_full(report, "not-in-lock") == [
        f"error a: a 1 is not in the lock\n{SITE}/a-1.dist-info @0\n"
        "fix: add it to the lock's requirements, or remove it in a stage"
    ]
    parent = audit(image(tmp_path, distribution("b", "1")), expect()).baseline
    (finding,) = in_full(audit(view, expected, parent=parent), "not-in-lock")
    assert finding.startswith("error a: a 1 is not in the lock\n")
    assert len(report.findings) == 3


def test_patches_that_are_lost_say_what_to_do(tmp_path: Path) -> None:
    def patch(name: str, file: str) -> PatchExpectation:
        return PatchExpectation(name, f"{SITE}/{file}", (Probe(b"NEW"),))

    view = image(tmp_path, {f"{SITE}/v/there.py": "NEW\n", f"{SITE}/v/back.py": "OLD\n"})
    patches = (patch("ok", "v/there.py"), patch("lost", "v/back.py"), patch("none", "v/gone.py"))
    assert told(view, "patch-lost", patches=patches) == [
        f"error lost: back.py: the replacement is missing: NEW\n{SITE}/v/back.py @0\n"
        "fix: apply the patch after whatever wrote this file last",
        f"error none: gone.py: its file is gone\n{SITE}/v/gone.py\n"
        "fix: find the stage that removed the file, and patch what took its place",
    ]


MODIFIED = "fix: make the edit a patch, or install the file anew"


def test_files_that_differ_say_which_patch_stands_in_them(tmp_path: Path) -> None:
    v = distribution("v", "1", {"v/a.py": "1", "v/b.py": "1", "v/c.py": "1", "v/d.py": "1"})
    del v[f"{SITE}/v/d.py"]
    edited: dict[str, Content] = {
        f"{SITE}/v/a.py": "NEW",
        f"{SITE}/v/b.py": "NEW+",
        f"{SITE}/v/c.py": "x",
    }

    def patch(name: str, file: str, whole: bytes) -> PatchExpectation:
        path, digest = f"{SITE}/v/{file}", hashlib.sha256(whole).hexdigest()
        return PatchExpectation(name, path, (Probe(b"NEW"),), post_sha256=digest)

    patches = (patch("p", "a.py", b"NEW"), patch("q", "b.py", b"NEW"), patch("r", "c.py", b"NEW"))
    assert told(image(tmp_path, v, edited), "file-modified", patches=patches) == [
        "error v: c.py differs from its RECORD and no patch explains it\n"
        f"{SITE}/v/c.py @1\n{MODIFIED}",
        "warning v: b.py differs from its RECORD: patch q stands in it, and something else was "
        f"edited\n{SITE}/v/b.py @1\n{MODIFIED}",
        f"note v: a.py differs from its RECORD\n{SITE}/v/a.py @1\nbecause: patch p",
    ]
    assert told(image(tmp_path, v, edited), "file-missing", patches=patches) == [
        f"error v: d.py is in its RECORD and not in the image\n{SITE}/v/d.py @0\n"
        "fix: install the distribution anew after whatever removed the file"
    ]


def test_two_patches_of_a_file_are_both_named(tmp_path: Path) -> None:
    v = distribution("v", "1", {"v.py": "1"})
    patches = tuple(PatchExpectation(name, f"{SITE}/v.py", (Probe(b"N"),)) for name in "pq")
    view = image(tmp_path, v, {f"{SITE}/v.py": "NN"})
    assert told(view, "file-modified", patches=patches) == [
        f"note v: v.py differs from its RECORD\n{SITE}/v.py @1\nbecause: patch p, q"
    ]


def test_conflicts_name_both_sides_whoever_won(tmp_path: Path) -> None:
    fix = "fix: name the owner in the lock's `known` table, or drop one of the two"
    same = {"a/same.py": "s", "z.py": "1"}  # equal bytes: passed over, the next one is not
    first = distribution("a", "1", same | {"x/m.py": "a"})
    second = distribution("b", "1", {"a/same.py": "s", "x/m.py": "b"})
    third = distribution("c", "1", {"x/m.py": "b"})
    assert told(image(tmp_path, first, second, third), "file-conflict") == [
        f"error a: m.py is also b and c's, with other bytes that won\n{SITE}/x/m.py @2\n{fix}"
    ]
    gone = image(tmp_path, first, second, {f"{SITE}/x/m.py": GONE})
    assert told(gone, "file-conflict") == [
        f"error a: m.py is also b's, with other bytes that won\n{SITE}/x/m.py\n{fix}",
        f"error b: m.py is also a's, with other bytes that won\n{SITE}/x/m.py\n{fix}",
    ]


def test_what_nobody_owns_is_told_by_its_first_directory(tmp_path: Path) -> None:
    a = distribution("a", "1", {"a/m.py": ""})
    stray: dict[str, Content] = {
        f"{SITE}/a/__pycache__/m.cpython-312.pyc": compiled(""),  # of a source that is owned
        f"{SITE}/a/deep/down/x.py": "",
        f"{SITE}/m.pth": "",
        f"{SITE}/z/__pycache__/gone.cpython-312.pyc": compiled(""),  # of none
    }
    assert told(image(tmp_path, a, stray), "unowned-file") == [
        f"note a: x.py belongs to no distribution\n{SITE}/a/deep/down/x.py @1",
        f"note m.pth: m.pth belongs to no distribution\n{SITE}/m.pth @1",
        "note z: gone.cpython-312.pyc belongs to no distribution\n"
        f"{SITE}/z/__pycache__/gone.cpython-312.pyc @1",
    ]


def test_records_that_say_too_little_or_too_much(tmp_path: Path) -> None:
    plain, conda = distribution("plain", "1"), distribution("by", "2", extra={"INSTALLER": "c\n"})
    del plain[f"{SITE}/plain-1.dist-info/RECORD"], conda[f"{SITE}/by-2.dist-info/RECORD"]
    del plain[f"{SITE}/plain-1.dist-info/INSTALLER"]
    sneaky = distribution("s", "1", record="../../../../../../x,,\n/etc/y,,\n")
    view = image(tmp_path, plain | conda, sneaky | distribution("bad", "1", record="one column\n"))
    assert told(view, "record-missing") == [
        f"note by: 2 has no RECORD (installed by c): its files are not checked\n"
        f"{SITE}/by-2.dist-info @0",
        f"note plain: 1 has no RECORD: its files are not checked\n{SITE}/plain-1.dist-info @0",
    ]
    assert told(view, "record-row-outside-root") == [
        "error s: its RECORD leaves the installation: ../../../../../../x, /etc/y\n"
        f"{SITE}/s-1.dist-info/RECORD @1\n"
        "fix: do not trust this wheel; nothing that these rows name was looked at"
    ]
    (finding,) = told(view, "broken-record")
    assert finding.startswith("error bad: RECORD: ")
    assert finding.endswith(
        f"\n{SITE}/bad-1.dist-info/RECORD @1\n"
        "fix: install the distribution anew; until then its files are not checked"
    )


def test_duplicates_name_every_copy_and_what_the_lock_has(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("pip", "8") | distribution("pip", "7"))
    message = (
        f"error pip: is installed 2 times in {SITE}: 7 (pip-7.dist-info) and 8 (pip-8.dist-info)"
    )
    rest = f"{SITE}/pip-8.dist-info @0\nfix: remove the files and the dist-info of the other copy"
    assert told(view, "duplicate-dist") == [f"{message}\n{rest}"]
    assert told(view, "duplicate-dist", pins={"pip": "8"}) == [f"{message}; the lock has 8\n{rest}"]
    view = image(tmp_path, distribution("pip", "8", site=VENV), distribution("pip", "7"))
    message = (
        "warning pip: is installed in 2 directories, the interpreter's path decides: "
        f"8 in {VENV} and 7 in {SITE}"
    )
    rest = f"{SITE}/pip-7.dist-info @1\nfix: remove the copy that is not meant"
    assert told(view, "shadowed-dist") == [f"{message}\n{rest}"]
    assert told(view, "shadowed-dist", pins={"pip": "8"}) == [f"{message}; the lock has 8\n{rest}"]


def test_broken_metadata_is_told_by_its_directory(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("triton", "3.7.1", directory="triton-3.6.0"))
    (finding,) = told(view, "broken-metadata")
    head, rest = finding.split("\n", 1)
    assert head.startswith("error triton: triton-3.6.0.dist-info: ")
    assert rest == (
        f"{SITE}/triton-3.6.0.dist-info @0\n"
        "fix: remove the directory; install the distribution anew if it is meant to be there"
    )


def test_sites_in_full(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("a", "1", site=VENV))
    fix = "fix: name the lock, or the base, that this image was made from"
    head = (
        f"error {SITE}: the image has nothing in this directory, so no distribution can be judged"
    )
    assert told(view, "site-missing", sites=(SITE,)) == [f"{head}; there is {VENV}\n{fix}"]
    assert told(image(tmp_path, {"x": ""}), "site-missing", sites=(SITE,)) == [f"{head}\n{fix}"]
    assert told(view, "site-not-judged", sites=(SITE,)) == [
        f"note {VENV}: holds distributions too, which are not held against the lock\n{VENV}"
    ]


def test_origins_in_full(tmp_path: Path) -> None:
    def built(commit: str) -> dict[str, Content]:
        info = {"vcs": "git", "commit_id": commit}
        text = json.dumps({"url": "https://h.invalid/m", "vcs_info": info})
        return distribution("m", "1", extra={"direct_url.json": text} if commit else {})

    fix = "fix: equal versions, other content: lock the file that is meant by its hash"
    texts = {"": "an index", "aa": "git, commit aa, from https://h.invalid/m"}
    path = f"{SITE}/m-1.dist-info @0"
    for now, then in [("aa", ""), ("", "aa")]:
        parent = audit(image(tmp_path, built(then)), expect()).baseline
        view = image(tmp_path, built(now))
        assert told(view, "origin-changed", audited={"parent": parent}) == [
            f"error m: 1 is from {texts[now]}, the parent's 1 from {texts[then]}\n{path}\n{fix}"
        ]
    editable = '{"dir_info": {"editable": true}, "url": "file:///src/m"}'
    view = image(tmp_path, distribution("m", "1", extra={"direct_url.json": editable}))
    assert told(view, "origin-editable") == [
        f"warning m: 1 is editable, src/m: the version does not vouch for its content\n{path}\n"
        "fix: install a wheel of it, or compare the files of that directory"
    ]
    assert told(image(tmp_path, built("aa")), "origin-direct-url") == [
        f"warning m: 1 is from {texts['aa']}, which the lock does not vouch for\n{path}\n"
        "fix: lock the wheel with its hash"
    ]


def test_kernels_that_are_stale_say_which_source_and_whose_layer(tmp_path: Path) -> None:
    data, caches = "flashinfer/data/include/flashinfer", "root/.cache/flashinfer/0.6.18/121a"
    base = distribution("flashinfer-python", "0.6.18", {f"{data}/a.cuh": "1", f"{data}/z.cuh": "1"})
    base |= distribution("flashinfer-jit-cache", "0.6.18", {"flashinfer_jit_cache/x.so": "x"})
    first: dict[str, Content] = {f"{caches}/cached_ops/one/one.so": "x"}
    edits: tuple[dict[str, Content], ...] = (
        {f"{SITE}/{data}/z.cuh": "2"},
        {f"{SITE}/{data}/a.cuh": "2"},
    )
    later: dict[str, Content] = {f"{caches}/cached_ops/two/two.so": "x"}
    view = image(tmp_path, base, first, edits[0], later, edits[1])
    assert told(view, "stale-jit") == [
        "error flashinfer-jit-cache: its kernels are of upstream's sources, and a.cuh is edited: "
        f"they win over it\n{SITE}/flashinfer_jit_cache @4\n"
        "fix: remove the distribution in the stage that edits the sources",
        *(
            f"error flashinfer-python: {name} was compiled before a.cuh was edited\n"
            f"{caches}/cached_ops/{name} @4\n"
            "fix: remove the directory in the layer that edits the sources"
            for name in ("one", "two")
        ),
    ]


@pytest.mark.parametrize(
    ("text", "severity", "keys"),
    [
        ("[global]\nindex-url = https://h.invalid\n", "warning", "index-url"),
        ("[global]\ntimeout = 60\n", "note", "timeout"),
        ("no section", "warning", "what cannot be read"),
    ],
)
def test_configured_installers_in_full(tmp_path: Path, text: str, severity: str, keys: str) -> None:
    path = "root/.config/pip/pip.conf"
    said = f"{severity} {path}: pip.conf sets {keys}: an install in this image obeys it\n{path} @1"
    fix = "\nfix: remove it in the layer that needed it" if severity == "warning" else ""
    view = image(tmp_path, {"x": ""}, {path: text})
    assert told(view, "installer-configured") == [said + fix]


def test_a_configured_environment_has_no_place_and_no_layer(tmp_path: Path) -> None:
    view = image(tmp_path, {"x": ""})
    view = replace(view, config={"config": {"Env": ["PIP_TIMEOUT=60"]}})
    assert told(view, "installer-configured") == [
        "note environment: the environment sets timeout: an install in this image obeys it"
    ]


def test_broken_imports_count_the_files(tmp_path: Path) -> None:
    def user(*names: str) -> dict[str, Content]:
        files = {f"u/{name}.py": "import lib.new\n" for name in names} | {"u/__init__.py": ""}
        return distribution("user", "1", files, requires=["lib>=2"])

    lib = distribution("lib", "1", {"lib/__init__.py": "A = 1\n"})
    fix = "fix: move user to a release for lib 1, or back"
    rest = "import lib.new; lib.new is not in the image, where lib is at 1"
    assert told(image(tmp_path, user("a"), lib), "import-broken") == [
        f"error user: a.py line 1 {rest}\n{SITE}/u/a.py @1\n{fix}"
    ]
    assert told(image(tmp_path, user("a", "b"), lib), "import-broken") == [
        f"error user: a.py line 1 and 1 more files {rest}\n{SITE}/u/a.py @1\n{fix}"
    ]
    assert told(image(tmp_path, user("a", "b", "c"), lib), "import-broken")[0].startswith(
        f"error user: a.py line 1 and 2 more files {rest}\n"
    )
