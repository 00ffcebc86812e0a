"""The store contract on the wire formats of S3 and Google Cloud Storage, against an imitation of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backends.store.open import open_store
from backends.store.port import ObjectStore
from tests.contract.store_suite import StoreSuite
from tests.support.cloudfake import cloud


class TestImitatedS3(StoreSuite):
    @pytest.fixture
    def store(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-looked-at")
        with cloud() as state:
            yield open_store(state.s3())


class TestImitatedGoogle(StoreSuite):
    @pytest.fixture
    def store(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
        monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "not-looked-at")
        with cloud() as state:
            yield open_store(state.gs())
