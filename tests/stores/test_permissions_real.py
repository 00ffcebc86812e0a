"""What a node's credentials cannot do, where a server here enforces it; and what refusals read like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from backends.errors import CredentialsError, ExistsError, NotFoundError, ReprieveError, StoreError
from backends.ids import CheckpointId
from backends.store.open import open_store
from backends.store.port import ObjectStore
from tests.support.objects import ADMIN, NODE, STRANGER, AzureServer, Identity, S3Server
from tests.support.store import UID, Bench

pytestmark = pytest.mark.stores
Opener = Callable[[str, dict[str, str]], ObjectStore]


def test_s3_a_node_creates_and_cannot_delete(s3: S3Server, acting: Opener, tmp_path: Path) -> None:
    s3.forbid(NODE, "s3:DeleteObject")
    controller = acting(s3.url("permissions"), ADMIN.environment())
    bench = Bench(store=controller)
    bench.begin()
    node = acting(s3.url("permissions"), NODE.environment())
    own = Bench(store=node, key=bench.key, fleet=bench.fleet, clock=bench.clock)
    done = own.save(tmp_path, 1)
    manifest = f"jobs/{UID}/checkpoints/1.1/manifest.json"
    for key in (manifest, f"jobs/{UID}/packs/1.1/0", f"jobs/{UID}/epochs/1"):
        with pytest.raises(CredentialsError, match="refused these credentials"):
            node.delete(key)
        with pytest.raises(ExistsError):
            node.create(key, b"mine")
    bench.verified(done.checkpoint)
    assert node.info(manifest) is not None
    controller.delete(manifest)
    assert controller.info(manifest) is None


def test_azure_a_node_creates_and_cannot_overwrite_or_delete(
    azure: AzureServer, acting: Opener, tmp_path: Path
) -> None:
    controller = acting(azure.url("permissions"), azure.environment())
    bench = Bench(store=controller)
    bench.begin()
    node = acting(azure.url("permissions"), azure.shared_access("rcl"))
    own = Bench(store=node, key=bench.key, fleet=bench.fleet, clock=bench.clock)
    assert own.save(tmp_path, 1).warnings == ()  # the first `latest` is a new object
    second = own.save(tmp_path, 2)
    assert "latest" in " ".join(second.warnings)  # replacing it is not allowed to a node, and harms nothing
    manifest = f"jobs/{UID}/checkpoints/1.1/manifest.json"
    before = controller.read(manifest)
    with pytest.raises(ReprieveError) as refused:
        node.replace(manifest, b"mine")
    assert isinstance(refused.value, CredentialsError)
    with pytest.raises(CredentialsError):
        node.delete(manifest)
    assert controller.read(manifest) == before
    bench.verified(CheckpointId(1, 2))


def test_s3_strangers_and_wrong_keys_are_told_in_a_line(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for who in (STRANGER, Identity(NODE.name, NODE.access, "wrong-secret")):
        for name, value in who.environment().items():
            monkeypatch.setenv(name, value)
        store = open_store(s3.url("private"))
        calls: tuple[Callable[[ObjectStore], object], ...] = (
            lambda store: store.read("a"),
            lambda store: store.create("a", b""),
            lambda store: store.list(""),
        )
        for call in calls:
            with pytest.raises(CredentialsError) as refused:
                call(store)
            assert "\n" not in refused.value.message
            assert who.secret not in refused.value.message
            assert "s3://ckpt/private" in refused.value.message


def test_a_missing_bucket_is_not_a_missing_object(
    s3: S3Server, azure: AzureServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**NODE.environment(), **azure.environment()}.items():
        monkeypatch.setenv(name, value)
    store = open_store(azure.url("x", container="nowhere"))
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.read("a"),
        lambda: store.create("a", b""),
        lambda: store.list(""),
    )
    for call in calls:
        with pytest.raises(StoreError, match="container is not there") as told:
            call()
        assert not isinstance(told.value, NotFoundError)
