"""What maintainer scripts would have made: alternatives, accounts, shells, PAM, defaults."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pipeline.debs.accounts import GROUP_MASTER, PASSWD_MASTER, SHELLS, accounts, shells
from pipeline.debs.alternatives import alternatives
from pipeline.debs.nodes import Node
from pipeline.debs.pam import PROFILES, TEMPLATES, pam
from pipeline.debs.scripts import check_scripts
from pipeline.debs.system import is_needed, system_files
from pipeline.errors import Refusal

DAY = 86400


def links(nodes: Iterable[Node]) -> dict[str, str]:
    return {node.path: node.link for node in nodes if node.link}


def texts(nodes: Iterable[Node]) -> dict[str, str]:
    return {node.path: node.data.decode() for node in nodes if node.data is not None}


def test_an_alternative_is_two_links_and_a_state() -> None:
    nodes = list(alternatives({"usr/bin/g++"}))
    assert links(nodes) == {
        "usr/bin/c++": "/etc/alternatives/c++",
        "etc/alternatives/c++": "/usr/bin/g++",
    }
    assert texts(nodes) == {
        "var/lib/dpkg/alternatives/c++": "auto\n/usr/bin/c++\n\n/usr/bin/g++\n20\n\n"
    }


def test_followers_move_along_when_they_are_there() -> None:
    nodes = list(alternatives({"usr/bin/mawk", "usr/share/man/man1/mawk.1.gz"}))
    found = links(nodes)
    assert found["usr/bin/nawk"] == "/etc/alternatives/nawk"
    assert found["etc/alternatives/nawk"] == "/usr/bin/mawk"
    assert found["usr/share/man/man1/awk.1.gz"] == "/etc/alternatives/awk.1.gz"
    assert texts(nodes)["var/lib/dpkg/alternatives/awk"].startswith(
        "auto\n/usr/bin/awk\nawk.1.gz\n/usr/share/man/man1/awk.1.gz\nnawk\n/usr/bin/nawk\n"
    )
    without = links(alternatives({"usr/bin/mawk"}))
    assert "usr/share/man/man1/awk.1.gz" not in without
    assert without["usr/bin/nawk"] == "/etc/alternatives/nawk"


def test_targets_and_links_of_a_merged_usr() -> None:
    found = links(alternatives({"usr/bin/more", "usr/bin/cpp"}))
    assert found["etc/alternatives/pager"] == "/bin/more"  # as the package spells it
    assert found["usr/lib/cpp"] == "/etc/alternatives/cpp"


MASTERS = {
    PASSWD_MASTER: b"root:*:0:0:root:/root:/bin/bash\n_apt:*:42:65534::/nonexistent:/no\n",
    GROUP_MASTER: b"root:*:0:\nusers:*:100:\n",
}


def test_accounts_have_shadows_and_no_passwords() -> None:
    nodes = list(accounts(MASTERS, set(), 20454 * DAY + 5))
    found = texts(nodes)
    assert found["etc/passwd"].startswith("root:x:0:0:root:/root:/bin/bash\n_apt:x:42:")
    assert found["etc/group"] == "root:x:0:\nusers:x:100:\n"
    assert found["etc/shadow"].splitlines()[0] == "root:*:20454:0:99999:7:::"
    assert found["etc/gshadow"] == "root:*::\nusers:*::\n"
    assert {n.path: n.mode for n in nodes}["etc/shadow"] == 0o640


def test_libibverbs_adds_its_group() -> None:
    found = texts(accounts(MASTERS, {"libibverbs1"}, 0))
    assert found["etc/group"].endswith("users:x:100:\nrdma:x:101:\n")
    assert found["etc/gshadow"].endswith("rdma:!::\n")


@pytest.mark.parametrize("path", [PASSWD_MASTER, GROUP_MASTER])
def test_accounts_without_a_master_are_refused(path: str) -> None:
    with pytest.raises(Refusal, match="no package brings usr/share/base-passwd"):
        list(accounts({key: data for key, data in MASTERS.items() if key != path}, set(), 0))


def test_shells_are_listed_by_both_paths_once() -> None:
    files = {
        SHELLS: b"# head\n/bin/sh\n",
        SHELLS + ".d/dash": b"/bin/dash\n",
        SHELLS + ".d/bash": b"/bin/bash # the good one\n/usr/bin/rbash\n\n",
    }
    found = texts(shells(files))
    assert found["etc/shells"].splitlines() == [
        *("# head", "/bin/sh", "/usr/bin/sh", "/bin/bash", "/usr/bin/bash"),
        *("/usr/bin/rbash", "/bin/dash", "/usr/bin/dash"),
    ]
    assert not list(shells({}))


UNIX = {
    PROFILES + "unix": b"Name: Unix authentication\nDefault: yes\n",
    PROFILES + "mkhomedir": b"Name: Create home\nDefault: no\n",
    TEMPLATES + "common-auth": b"# top\n$auth_primary\n# middle\n$auth_additional\n# end\n",
    TEMPLATES + "common-session-noninteractive": (
        b"$session_nonint_primary\n#\n$session_nonint_additional\n"
    ),
}


def test_pam_fills_the_templates() -> None:
    found = texts(pam(UNIX))
    assert found["etc/pam.d/common-auth"] == (
        "# top\nauth\t[success=1 default=ignore]\tpam_unix.so nullok\n# middle\n# end\n"
    )
    assert found["etc/pam.d/common-session-noninteractive"] == (
        "session\t[default=1]\t\t\tpam_permit.so\n#\nsession\trequired\tpam_unix.so \n"
    )
    assert found["var/lib/pam/auth"] == (
        "Module: unix\n[success=end default=ignore]\tpam_unix.so nullok\n"
    )
    assert found["var/lib/pam/seen"] == "unix\nmkhomedir\n"
    assert "etc/pam.d/common-password" not in found


def test_another_profile_that_is_on_is_refused() -> None:
    with pytest.raises(Refusal, match="PAM profile ldap is on by default"):
        list(pam({**UNIX, PROFILES + "ldap": b"Name: x\nDefault: yes\n"}))


def test_no_pam_without_its_runtime() -> None:
    assert not list(pam({}))


def test_defaults_are_copied_and_directories_made() -> None:
    files = {"usr/share/base-files/profile": b"p", "usr/share/libc-bin/nsswitch.conf": b"n"}
    nodes = list(system_files(files, {"base-files", "python3", "python3.11-minimal", "tzdata"}))
    found = texts(nodes)
    assert (found["etc/profile"], found["etc/nsswitch.conf"]) == ("p", "n")
    assert "etc/motd" not in found
    assert "localhost" in found["etc/hosts"]
    assert links(nodes)["etc/localtime"] == "/usr/share/zoneinfo/Etc/UTC"
    modes = {node.path: node.mode for node in nodes}
    assert modes["run/lock"] == 0o1777
    assert modes["usr/local/lib/python3.11/dist-packages"] == 0o755
    bare = {node.path for node in system_files({}, {"base-files"})}
    assert not bare & {"etc/localtime", "etc/timezone", "etc/python3/debian_config"}


@pytest.mark.parametrize(
    ("path", "needed"),
    [
        (PASSWD_MASTER, True),
        (SHELLS + ".d/bash", True),
        (PROFILES + "unix", True),
        ("usr/share/ca-certificates/mozilla/x.crt", True),
        ("usr/share/ca-certificates/mozilla/x.txt", False),
        ("usr/bin/gcc", False),
    ],
)
def test_only_sources_are_kept_in_memory(path: str, needed: bool) -> None:
    assert is_needed(path) is needed


def test_scripts_that_nobody_has_read_are_refused() -> None:
    check_scripts("unknown", {"control", "md5sums", "prerm", "postrm", "triggers"})
    check_scripts("dash", {"control", "postinst"})
    for script in ("preinst", "postinst"):
        with pytest.raises(Refusal, match=f"unknown has scripts that nothing stands for: {script}"):
            check_scripts("unknown", {"control", script})
