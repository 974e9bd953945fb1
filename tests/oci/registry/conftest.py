"""A registry that misbehaves, and a client without patience."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.oci.references import parse_reference
from pipeline.oci.registry.client import Repository
from pipeline.oci.registry.wire import Patience, Wire
from tests.oci.registry.server import Registry

QUICK = Patience(connect=2, read=0.5, tries=3, first_pause=0.01, all_pauses=2)


@pytest.fixture(autouse=True)
def _no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))


@pytest.fixture
def repository(registry: Registry) -> Repository:
    """A client of the registry's only repository, for reading and writing."""
    return client(registry)


def client(registry: Registry, *, push: bool = True) -> Repository:
    return Repository(parse_reference(f"{registry.host}/stack"), Wire(QUICK), push=push)
