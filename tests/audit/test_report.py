"""The report as JSON, and the environment that an image shows by itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.audit.environment import image_environment
from pipeline.audit.expectation import marker_environment
from pipeline.audit.run import audit
from tests.audit.images import SITE, distribution, expect, image


def test_a_distribution_says_who_installed_it_and_from_where(tmp_path: Path) -> None:
    url = '{"url": "https://h.invalid/a.whl", "archive_info": {}}'
    here = distribution("a", "1", extra={"direct_url.json": url})
    nobody = distribution("b", "2")
    del nobody[f"{SITE}/b-2.dist-info/INSTALLER"]
    view = image(tmp_path, here, nobody)
    document = audit(view, expect()).to_json()
    assert document["distributions"] == [
        {
            "name": "a",
            "version": "1",
            "path": f"{SITE}/a-1.dist-info",
            "layer": 0,
            "installer": "pip",
            "origin": "archive with sha256 unknown, from https://h.invalid/a.whl",
        },
        {"name": "b", "version": "2", "path": f"{SITE}/b-2.dist-info", "layer": 1},
    ]


def test_what_it_was_held_against(tmp_path: Path) -> None:
    view = image(tmp_path, distribution("a", "1"))
    assert audit(view, expect()).to_json()["against"] == "the lock"
    assert audit(view, replace(expect(), label="")).to_json()["against"] is None


@pytest.mark.parametrize(
    ("site", "config", "sites", "python", "machine"),
    [
        (SITE, {"architecture": "arm64"}, (), "3.12", "aarch64"),
        (SITE, {"architecture": "amd64"}, (), "3.12", "x86_64"),
        (SITE, {"architecture": "riscv64"}, (), "3.12", "riscv64"),
        (SITE, {}, (), "3.12", "aarch64"),
        (SITE, {}, ("opt/lib/python3.10/site-packages", SITE), "3.10", "aarch64"),
        ("srv/nothing", {}, (), "3.11", "aarch64"),
    ],
)
def test_an_image_shows_its_python_and_its_machine(
    tmp_path: Path,
    site: str,
    config: dict[str, str],
    sites: tuple[str, ...],
    python: str,
    machine: str,
) -> None:
    view = replace(image(tmp_path, distribution("a", "1", site=site)), config=config)
    found = image_environment(view, sites)
    assert found == marker_environment(python, machine)
    assert (found["python_version"], found["platform_machine"]) == (python, machine)


def test_the_full_version_of_a_python_and_its_short_one() -> None:
    found = marker_environment("3.12.3", "aarch64")
    assert (found["python_version"], found["python_full_version"]) == ("3.12", "3.12.3")
