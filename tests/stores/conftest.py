"""One SeaweedFS and one Azurite for all tests of this folder; skipped by name where they cannot be had."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from backends.store.open import open_store
from backends.store.port import ObjectStore
from tests.support import objects

VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")
Opener = Callable[..., ObjectStore]


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[objects.S3Server]:
    """SeaweedFS."""
    try:
        with objects.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
            yield server
    except objects.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[objects.AzureServer]:
    """Azurite."""
    try:
        with objects.azurite(tmp_path_factory.mktemp("azurite")) as server:
            yield server
    except objects.UnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture
def acting(monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Open a store with credentials of one's own; they are read at its first request, so do one before the next."""

    def open_as(url: str, environment: dict[str, str]) -> ObjectStore:
        import os

        for name in [name for name in os.environ if name.startswith(VARIABLES)]:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        store = open_store(url)
        for size in (0, 2 << 20):  # both clients: small requests and large ones
            store.create(f"probes/{os.urandom(6).hex()}", bytes(size))
        return store

    return open_as


@pytest.fixture(params=["s3", "azure"])
def real(request: pytest.FixtureRequest, acting: Opener) -> ObjectStore:
    """A fresh prefix on each server in turn, with an administrator's credentials."""
    name = request.node.name.replace("[", "-").replace("]", "")[:60]
    server = request.getfixturevalue(request.param)
    if isinstance(server, objects.S3Server):
        return acting(server.url(f"life/{name}"), objects.ADMIN.environment())
    assert isinstance(server, objects.AzureServer)
    return acting(server.url(f"life/{name}"), server.environment())
