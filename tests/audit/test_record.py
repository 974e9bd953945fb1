"""RECORDs against the bytes of the image."""

import base64
import hashlib
from pathlib import Path

from pipeline.audit.expectation import KnownFault, PatchExpectation, Probe
from pipeline.audit.findings import Finding
from pipeline.audit.run import audit
from tests.audit.images import GONE, SITE, Content, compiled, distribution, expect, image


def findings(tmp_path: Path, *layers: dict[str, Content], **expected: object) -> list[Finding]:
    report = audit(image(tmp_path, *layers), expect(**expected))  # type: ignore[arg-type]
    return list(report.findings)


def test_19_record_does_not_match(tmp_path: Path) -> None:
    cutlass = distribution(
        "nvidia-cutlass-dsl", "4.4.1", {"nvidia_cutlass_dsl.pth": "nvidia_cutlass_dsl\n"}
    )
    del cutlass[f"{SITE}/nvidia_cutlass_dsl.pth"]
    libs = distribution(
        "nvidia-cutlass-dsl-libs-base", "4.5.0", {"nvidia_cutlass_dsl/experimental/core.py": "X"}
    )
    vllm = distribution("vllm", "0.28.0", {"vllm/cuda.py": "A = 1\n", "vllm/other.py": "B = 1\n"})
    ray = distribution(
        "ray",
        "2.50.0",
        record="../../../bin/ray,,\nray/__pycache__/x.cpython-312.pyc,,\n"
        '"ray/a,b.txt",,\nray-2.50.0.dist-info/RECORD,,\n',
    )
    sneaky = distribution(
        "sneaky", "1.0", record="../../../../../../../etc/passwd,,\n/etc/shadow,,\n"
    )
    other: dict[str, Content] = {
        f"{SITE}/nvidia_cutlass_dsl/experimental/orphan.py": "Y = 1\n",
        f"{SITE}/vllm/cuda.py": "A = 2\n",
        f"{SITE}/vllm/other.py": "B = 2\n",
        "usr/local/bin/ray": "#!/usr/bin/python3\n",
        f"{SITE}/ray/__pycache__/x.cpython-312.pyc": compiled(""),
        f"{SITE}/ray/a,b.txt": "t\n",
    }
    patch = PatchExpectation("cuda", f"{SITE}/vllm/cuda.py", (Probe(b"A = 2"),), (Probe(b"A = 1"),))
    found = findings(tmp_path, cutlass | libs | vllm | ray | sneaky | other, patches=(patch,))
    assert [(one.rule, one.severity, one.path.removeprefix(f"{SITE}/")) for one in found] == [
        ("family-mixed", "error", "nvidia_cutlass_dsl_libs_base-4.5.0.dist-info"),
        ("file-missing", "error", "nvidia_cutlass_dsl.pth"),
        ("file-modified", "error", "vllm/other.py"),
        ("record-row-outside-root", "error", "sneaky-1.0.dist-info/RECORD"),
        ("file-modified", "note", "vllm/cuda.py"),
        ("unowned-file", "note", "nvidia_cutlass_dsl/experimental/orphan.py"),
    ]
    assert found[4].reason == "patch cuda"


def test_a_patched_file_that_was_edited_otherwise_too_is_a_warning(tmp_path: Path) -> None:
    vllm = distribution("vllm", "1", {"v.py": "A = 1\n"})
    patch = PatchExpectation(
        "p", f"{SITE}/v.py", (Probe(b"A = 2"),), post_sha256=hashlib.sha256(b"A = 2\n").hexdigest()
    )
    edited: dict[str, Content] = {f"{SITE}/v.py": "A = 2\nB = 1\n"}
    (finding,) = findings(tmp_path, vllm, edited, patches=(patch,))
    assert (finding.rule, finding.severity, finding.reason) == ("file-modified", "warning", "")
    exact: dict[str, Content] = {f"{SITE}/v.py": "A = 2\n"}
    (finding,) = findings(tmp_path, vllm, exact, patches=(patch,))
    assert (finding.severity, finding.reason) == ("note", "patch p")


def test_compiled_files_may_be_missing_and_may_be_there(tmp_path: Path) -> None:
    a = distribution(
        "a", "1", record="a.py,,\nb.py,,\n__pycache__/a.cpython-312.pyc,,\na-1.dist-info/RECORD,,\n"
    )
    there: dict[str, Content] = {
        f"{SITE}/a.py": "",
        f"{SITE}/b.py": "",
        f"{SITE}/__pycache__/b.cpython-312.pyc": compiled(""),
    }
    assert findings(tmp_path, a | there) == []


def test_a_size_without_a_hash_is_held_against_the_file(tmp_path: Path) -> None:
    a = distribution("a", "1", record="a.py,,3\n")
    (finding,) = findings(tmp_path, a | {f"{SITE}/a.py": "1234"})
    assert finding.rule == "file-modified"
    assert findings(tmp_path, a | {f"{SITE}/a.py": "123"}) == []


def test_hashes_of_other_algorithms_are_checked_and_unknown_ones_never_pass(tmp_path: Path) -> None:
    digest = base64.urlsafe_b64encode(hashlib.sha512(b"x").digest()).rstrip(b"=").decode()
    a = distribution("a", "1", record=f"a.py,sha512={digest},1\n")
    assert findings(tmp_path, a | {f"{SITE}/a.py": "x"}) == []
    assert [one.rule for one in findings(tmp_path, a | {f"{SITE}/a.py": "y"})] == ["file-modified"]
    gone = distribution("a", "1", record=f"a.py,sha512={digest},1\n")
    assert [one.rule for one in findings(tmp_path, gone)] == ["file-missing"]
    a = distribution("a", "1", record=f"a.py,rot13={digest},1\n")
    assert [one.rule for one in findings(tmp_path, a | {f"{SITE}/a.py": "x"})] == ["file-modified"]


def test_records_that_are_not_there_or_not_readable(tmp_path: Path) -> None:
    a = distribution("a", "1", record="one column\n")
    b = distribution("b", "1", {"b.py": ""})
    del b[f"{SITE}/b-1.dist-info/RECORD"]
    found = findings(tmp_path, a | b | {f"{SITE}/stray.py": ""})
    # whose file stray.py is cannot be said here
    assert [(one.rule, one.severity) for one in found] == [
        ("broken-record", "error"),
        ("record-missing", "note"),
    ]


def test_a_file_of_two_distributions_with_other_bytes_is_a_conflict(tmp_path: Path) -> None:
    layers = (
        distribution("flashinfer-python", "1", {"build_backend.py": "a"}),
        distribution("torch-c-dlpack-ext", "1", {"build_backend.py": "b"}),
    )
    (finding,) = findings(tmp_path, *layers)
    assert (finding.rule, finding.subject) == ("file-conflict", "flashinfer-python")
    known = KnownFault(
        "file-conflict", "flashinfer-python", "why", "build_backend.py", owner="torch-c-dlpack-ext"
    )
    (finding,) = findings(tmp_path, *layers, known=(known,))
    assert (finding.severity, finding.reason) == ("note", "why")
    # in the other order the other one stays: that is not what is known
    (finding,) = findings(tmp_path, *reversed(layers), known=(known,))
    assert finding.severity == "error"


def test_equal_bytes_of_two_distributions_are_no_conflict(tmp_path: Path) -> None:
    same = {"a.py": "same"}
    both = distribution("a", "1", same) | distribution("b", "1", same)
    assert findings(tmp_path, both) == []
    # one row without a hash says nothing against the other
    b = distribution("b", "1", record="a.py,,\n")
    assert findings(tmp_path, distribution("a", "1", same) | b) == []


def test_30_when_two_records_are_both_wrong_both_are_said(tmp_path: Path) -> None:
    layers = (
        distribution("a", "1", {"x.py": "a"}),
        distribution("b", "1", {"x.py": "b"}),
        {f"{SITE}/x.py": "c"},
    )
    rules = sorted((one.rule, one.subject) for one in findings(tmp_path, *layers))
    assert rules == [
        ("file-conflict", "a"),
        ("file-conflict", "b"),
        ("file-modified", "a"),
        ("file-modified", "b"),
    ]


def test_a_known_fault_is_tolerated_with_that_content_only(tmp_path: Path) -> None:
    wrong = distribution("codec", "2.0.4", {"codec/a.so": "as in RECORD"})
    really: dict[str, Content] = {f"{SITE}/codec/a.so": "really"}
    sha256 = hashlib.sha256(b"really").hexdigest()
    known = KnownFault("record-mismatch", "codec", "upstream's wheel", "codec/a.so", sha256)
    (finding,) = findings(tmp_path, wrong, really, known=(known,))
    assert (finding.severity, finding.reason) == ("note", "upstream's wheel")
    tampered: dict[str, Content] = {f"{SITE}/codec/a.so": "tampered"}
    (finding,) = findings(tmp_path, wrong, tampered, known=(known,))
    assert finding.severity == "error"


def test_a_file_that_a_later_layer_removed_is_missing(tmp_path: Path) -> None:
    (finding,) = findings(
        tmp_path, distribution("a", "1", {"a/x.py": "", "a/y.py": ""}), {f"{SITE}/a/x.py": GONE}
    )
    assert (finding.rule, finding.path) == ("file-missing", f"{SITE}/a/x.py")


CODEC = distribution("codec", "2.0.4", {"codec/a.so": "as in RECORD", "codec/b.so": "1"})


def test_a_known_fault_is_that_of_its_file_and_of_no_other(tmp_path: Path) -> None:
    view = image(tmp_path, CODEC, {f"{SITE}/codec/a.so": "really", f"{SITE}/codec/b.so": "2"})
    for path in ("codec/a.so", f"/{SITE}/codec/a.so", f"{SITE}/codec/a.so"):
        known = KnownFault("record-mismatch", "codec", "upstream's wheel", path)
        report = audit(view, expect(known=(known,)))
        assert [(one.severity, one.path) for one in report.findings] == [
            ("error", f"{SITE}/codec/b.so"),
            ("note", f"{SITE}/codec/a.so"),
        ]
    nowhere = KnownFault("record-mismatch", "codec", "upstream's wheel", "a.so")
    assert audit(view, expect(known=(nowhere,))).worst == "error"
    other = KnownFault("record-mismatch", "Other", "upstream's wheel")
    assert audit(view, expect(known=(other,))).worst == "error"
    both = KnownFault("record-mismatch", "Codec", "upstream's wheel")
    assert audit(view, expect(known=(both,))).worst == "note"


def test_a_known_owner_is_the_one_whose_bytes_are_there(tmp_path: Path) -> None:
    layers = [distribution(name, "1", {"x.py": name}) for name in "abc"]
    for owner, severity in [("b", "error"), ("c", "note"), ("C", "note")]:
        known = KnownFault("file-conflict", "a", "why", "x.py", owner=owner)
        found = findings(tmp_path, *layers, known=(known,))
        assert [(one.subject, one.severity) for one in found] == sorted(
            [("a", severity), ("b", "error")], key=lambda one: one[1]
        )


def test_a_known_owner_of_a_file_that_is_gone_excuses_nothing(tmp_path: Path) -> None:
    layers = [distribution(name, "1", {"x.py": name}) for name in "ab"]
    known = KnownFault("file-conflict", "a", "why", "x.py", owner="b")
    found = findings(tmp_path, *layers, {f"{SITE}/x.py": GONE}, known=(known,))
    assert [(one.subject, one.severity) for one in found if one.rule == "file-conflict"] == [
        ("a", "error"),
        ("b", "error"),
    ]
