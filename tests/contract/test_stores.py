"""The store contract on every store there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.fakes.fileops import SimulatedOps
from backends.fakes.store import MemoryStore
from backends.store.files import FileStore
from backends.store.port import ObjectStore
from tests.contract.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return MemoryStore()


class TestFileStore(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return FileStore(tmp_path / "new" / "store")


class TestFileStoreOnSimulatedFiles(StoreSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return FileStore(tmp_path, SimulatedOps())
