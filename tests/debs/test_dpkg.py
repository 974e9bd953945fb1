"""dpkg's database: stanzas, info files, triggers, diversions."""

from __future__ import annotations

import pytest

from pipeline.debs.archive import ControlFile
from pipeline.debs.dpkg import (
    Installed,
    conffile_names,
    database,
    kept_conffiles,
    parse_control,
)
from pipeline.errors import Refusal

CONTROL = b"""\
Package: bash
Version: 5.2.15-2
Architecture: arm64
Essential: yes
Description: shell
 Bash is
 .
 a shell.
Homepage: there
Section: shells
"""


def files(**named: bytes) -> dict[str, ControlFile]:
    return {"control": ControlFile(0o644, CONTROL)} | {
        name: ControlFile(0o755 if name == "postinst" else 0o644, data)
        for name, data in named.items()
    }


def installed(control: bytes = CONTROL, **named: bytes) -> Installed:
    return Installed(parse_control(control), files(**named), ["", "bin", "bin/bash"], {})


def written(*packages: Installed) -> dict[str, str]:
    return {n.path: (n.data or b"").decode() for n in database(packages, "arm64")}


def test_fields_keep_continuation_lines() -> None:
    assert parse_control(CONTROL)["Description"] == "shell\n Bash is\n .\n a shell."


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "no field"),
        (b" continuation first\n", "no field"),
        (b"Package: a\nVersion: 1\n\nPackage: b\n", "no field"),
        (b"Package: a\nVersion: 1\nVersion: 2\nArchitecture: all\n", "no field"),
        (b"Package: a\nno colon\n", "no field"),
        (b"Package: a\nVersion: 1\n", "no field Architecture"),
        (b"Package:\nVersion: 1\nArchitecture: all\n", "no field Package"),
        (b"Package: \xff\n", "not UTF-8"),
    ],
)
def test_a_faulty_control_file_is_refused(data: bytes, problem: str) -> None:
    with pytest.raises(Refusal, match=problem):
        parse_control(data)


def test_a_stanza_is_installed_and_in_dpkgs_order() -> None:
    package = Installed(parse_control(CONTROL), files(), [], {"etc/bash.bashrc": b"x"})
    assert written(package)["var/lib/dpkg/status"] == (
        "Package: bash\n"
        "Essential: yes\n"
        "Status: install ok installed\n"
        "Section: shells\n"
        "Architecture: arm64\n"
        "Version: 5.2.15-2\n"
        "Conffiles:\n"
        " /etc/bash.bashrc 9dd4e461268c8034f5c8564e155c67a6\n"
        "Description: shell\n Bash is\n .\n a shell.\n"
        "Homepage: there\n"
        "\n"
    )


def test_packages_are_sorted_whatever_their_order() -> None:
    one, two = installed(), installed(CONTROL.replace(b"bash", b"awk", 1))
    assert written(one, two) == written(two, one)
    status = written(one, two)["var/lib/dpkg/status"]
    assert status.index("Package: awk") < status.index("Package: bash")


def test_info_has_list_and_control_files_with_their_modes() -> None:
    package = installed(md5sums=b"m", postinst=b"#!")
    nodes = {n.path: n for n in database([package], "arm64")}
    assert nodes["var/lib/dpkg/info/bash.list"].data == b"/.\n/bin\n/bin/bash\n"
    assert nodes["var/lib/dpkg/info/bash.postinst"].mode == 0o755
    assert nodes["var/lib/dpkg/info/bash.md5sums"].data == b"m"
    assert "var/lib/dpkg/info/bash.control" not in nodes
    assert nodes["var/lib/dpkg/info/format"].data == b"1\n"
    assert nodes["var/lib/dpkg/arch"].data == b"arm64\n"


def test_multi_arch_same_has_its_architecture_in_the_names() -> None:
    package = installed(CONTROL + b"Multi-Arch: same\n")
    assert "var/lib/dpkg/info/bash:arm64.list" in written(package)


def test_triggers_are_registered() -> None:
    lines = (b"# by hand", b"interest-noawait /usr/share/x", b"interest ldconfig", b"activate y")
    found = written(installed(triggers=b"\n".join(lines)))
    assert found["var/lib/dpkg/triggers/File"] == "/usr/share/x bash/noawait\n"
    assert found["var/lib/dpkg/triggers/ldconfig"] == "bash\n"
    assert "var/lib/dpkg/triggers/y" not in found


def test_dash_diverts_sh() -> None:
    assert written(installed())["var/lib/dpkg/diversions"] == ""
    dash = installed(CONTROL.replace(b"bash", b"dash", 1))
    assert "/bin/sh\n/bin/sh.distrib\ndash\n" in written(dash)["var/lib/dpkg/diversions"]


def test_conffiles_are_found_where_they_lie() -> None:
    control = files(conffiles=b"/etc/a\n/lib/b.conf\nremove-on-upgrade /etc/old\n")
    assert conffile_names(control) == ["etc/a", "lib/b.conf"]
    kept = {"etc/a": b"1", "usr/lib/b.conf": b"2"}
    assert kept_conffiles(control, kept) == {"etc/a": b"1", "lib/b.conf": b"2"}
    with pytest.raises(Refusal, match=r"conffile /lib/b\.conf is not in it"):
        kept_conffiles(control, {"etc/a": b"1"})
