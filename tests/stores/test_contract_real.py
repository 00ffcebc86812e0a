"""The store contract on SeaweedFS (real S3 semantics) and Azurite (Azure Blob's own emulator)."""

from __future__ import annotations

import itertools

import pytest

from backends.store.open import open_store
from backends.store.port import ObjectStore
from tests.contract.store_suite import StoreSuite
from tests.support.objects import ADMIN, AzureServer, S3Server

pytestmark = pytest.mark.stores
FRESH = itertools.count()


class TestSeaweed(StoreSuite):
    races = 3  # it makes losers wait a second each for its lock

    @pytest.fixture
    def store(self, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
        for name, value in ADMIN.environment().items():
            monkeypatch.setenv(name, value)
        return open_store(s3.url(f"contract/{next(FRESH)}"))


class TestAzurite(StoreSuite):
    @pytest.fixture
    def store(self, azure: AzureServer, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
        for name, value in azure.environment().items():
            monkeypatch.setenv(name, value)
        return open_store(azure.url(f"contract/{next(FRESH)}"))
