"""What a store does when requests fail: retries, silence after success, conflicts, and the words of each error."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from backends.errors import (
    CredentialsError,
    DamagedError,
    ExistsError,
    FullError,
    NotFoundError,
    ReprieveError,
    StoreError,
    UnreachableError,
)
from backends.store.format.manifests import list_job
from backends.store.objects.address import parse
from backends.store.objects.store import CloudStore
from backends.store.probe import probe
from backends.store.verify import verify_checkpoint
from tests.support.cloudfake import CloudState, Trouble, cloud
from tests.support.store import UID, Bench, ManualClock


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudState]:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    with cloud() as state:
        yield state


def store_of(server: CloudState, clock: ManualClock | None = None, *, quick_s: float = 5.0) -> CloudStore:
    return CloudStore(parse(server.s3()), clock=clock or ManualClock(), quick_s=quick_s, bulk_s=20.0)


def test_a_busy_store_is_asked_again_with_pauses_and_not_for_ever(server: CloudState) -> None:
    clock = ManualClock()
    begun = clock.now
    store = store_of(server, clock)
    server.troubles = [Trouble("PUT", 503, "SlowDown", times=3)]
    assert store.create("k", b"x") == 1
    assert 0.125 + 0.5 + 2 <= clock.now - begun <= 0.25 + 1 + 4
    assert server.requests == ["PUT"] * 4
    server.troubles = [Trouble("GET", 500, "InternalError", times=99)]
    server.requests.clear()
    with pytest.raises(UnreachableError, match="did not answer"):
        store.read("k")
    assert server.requests == ["GET"] * 4


def test_a_create_that_was_done_but_not_answered_is_ours(server: CloudState) -> None:
    server.troubles = [Trouble("PUT", done=True)]
    assert store_of(server).create("k", b"our bytes") == 9
    assert server.objects["fleet/k"] == b"our bytes"
    assert server.requests.count("PUT") == 2


def test_a_create_that_timed_out_but_was_done_is_ours(server: CloudState) -> None:
    server.troubles = [Trouble("PUT", done=True, slow_s=1.5)]
    assert store_of(server, quick_s=0.5).create("k", b"our bytes") == 9


def test_anothers_object_after_a_silence_is_not_ours(server: CloudState) -> None:
    store = store_of(server)
    server.objects["fleet/k"] = b"theirs too"
    server.troubles = [Trouble("PUT")]
    with pytest.raises(ExistsError):
        store.create("k", b"our bytes.")
    assert server.objects["fleet/k"] == b"theirs too"


def test_the_same_bytes_created_twice_lose_the_second_time(server: CloudState) -> None:
    store = store_of(server)
    store.create("k", b"same")
    with pytest.raises(ExistsError):
        store.create("k", b"same")


def test_a_conflict_that_nobody_won_is_tried_again(server: CloudState) -> None:
    server.troubles = [Trouble("PUT", 412, "PreconditionFailed")]  # and nothing stands there
    assert store_of(server).create("k", b"x") == 1
    server.troubles = [Trouble("PUT", 409, "ConditionalRequestConflict")]
    assert store_of(server).create("l", b"x") == 1


def test_silence_to_the_end_is_unreachable_and_the_caller_may_ask_again(server: CloudState) -> None:
    store = store_of(server)
    server.troubles = [Trouble("PUT", done=True, times=1), Trouble("PUT", times=3)]
    with pytest.raises(UnreachableError, match="may or may not be there"):
        store.create("k", b"x")
    with pytest.raises(ExistsError):
        store.create("k", b"x")
    assert store.read("k") == b"x"


def test_an_answer_that_is_cut_off_is_read_again_or_refused(server: CloudState) -> None:
    store = store_of(server)
    store.create("k", b"0123456789")
    server.troubles = [Trouble("GET", cut=True)]
    assert store.read("k") == b"0123456789"
    server.troubles = [Trouble("GET", cut=True)]
    assert store.read_range("k", 2, 6) == b"234567"
    server.troubles = [Trouble("GET", cut=True, times=99)]
    with pytest.raises(UnreachableError):
        store.read("k")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "AccessDenied", CredentialsError), (403, "SignatureDoesNotMatch", CredentialsError),
        (400, "ExpiredToken", CredentialsError), (403, "RequestTimeTooSkewed", CredentialsError),
        (401, "", CredentialsError), (404, "NoSuchBucket", StoreError), (507, "", FullError),
        (403, "QuotaExceeded", FullError), (400, "AuthorizationHeaderMalformed", StoreError),
        (400, "EntityTooLarge", StoreError), (429, "", UnreachableError), (408, "RequestTimeout", UnreachableError),
    ],
)  # fmt: skip
def test_every_refusal_has_its_kind_and_one_line(
    server: CloudState, status: int, code: str, kind: type[ReprieveError]
) -> None:
    store = store_of(server)
    server.troubles = [Trouble("*", status, code, times=99)]
    calls: tuple[Callable[[], object], ...] = (
        lambda: store.create("k", b"x"),
        lambda: store.read("k"),
        lambda: store.list("jobs/"),
    )
    for call in calls:
        with pytest.raises(kind) as told:
            call()
        assert not isinstance(told.value, NotFoundError)
        assert "\n" not in told.value.message
        assert "hunter2" not in told.value.message
        assert told.value.message.startswith("s3://ckpt/fleet/")


def test_no_server_and_no_credentials(monkeypatch: pytest.MonkeyPatch, server: CloudState) -> None:
    gone = CloudStore(parse("s3://ckpt?endpoint=http://127.0.0.1:1"), clock=ManualClock())
    with pytest.raises(UnreachableError):
        gone.list("")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises((CredentialsError, UnreachableError)):
        store_of(server).read("k")


def test_listings_of_many_pages_are_complete_and_ordered(server: CloudState) -> None:
    server.page = 7
    names = [f"jobs/a/{number}" for number in range(40)]
    server.objects |= {f"fleet/{name}": b"x" for name in names} | {
        "fleet-other/jobs/a/1": b"",
        "jobs/a/1": b"",
    }
    assert [info.key for info in store_of(server).list("jobs/a/")] == sorted(names)
    server.troubles = [Trouble("GET", 503, "SlowDown")]
    assert len(store_of(server).list("jobs/a/")) == 40


def test_a_short_object_is_damage_and_a_missing_one_is_missing(server: CloudState) -> None:
    store = store_of(server)
    store.create("k", b"0123")
    with pytest.raises(DamagedError, match="cut short"):
        store.read_range("k", 2, 5)
    for length in (0, 1):
        with pytest.raises(NotFoundError):
            store.read_range("none", 0, length)


def test_the_probe_refuses_a_store_that_ignores_conditions(server: CloudState) -> None:
    rows = {row["check"]: row for row in probe(store_of(server))}
    assert all(row["ok"] for row in rows.values())
    server.conditional = False
    rows = {row["check"]: row for row in probe(store_of(server))}
    assert not rows["create if absent"]["ok"]
    assert "epochs would not be safe" in rows["create if absent"]["message"]
    assert not rows["sixteen at once"]["ok"]


def test_the_probe_says_why_a_store_cannot_be_used(server: CloudState) -> None:
    server.troubles = [Trouble("PUT", 403, "AccessDenied", times=99)]
    (row,) = probe(store_of(server))
    assert (row["check"], row["ok"]) == ("reach", False)
    assert "AccessDenied" in row["message"]


def test_new_credentials_are_looked_for_after_a_refusal(
    server: CloudState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_PROFILE", "absent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    store = store_of(server)
    with pytest.raises(CredentialsError, match="absent"):
        store.create("k", b"x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKEXAMPLE")
    assert store.create("k", b"x") == 1
    server.troubles = [Trouble("PUT", 403, "ExpiredToken")]
    with pytest.raises(CredentialsError):
        store.create("l", b"x")
    assert store.create("l", b"x") == 1


def test_a_commit_with_a_dead_line_at_each_write_in_turn_is_whole(server: CloudState, tmp_path: Path) -> None:
    bench = Bench(store=store_of(server))
    bench.begin()
    for seq in range(1, 9):
        server.troubles = [Trouble("PUT", done=seq % 2 == 0, skip=(seq - 1) // 2)]
        committed = bench.save(tmp_path, seq)
        assert server.troubles[0].times == 0
        verify_checkpoint(bench.store, UID, committed.checkpoint, bench.key, bench.clock)
    assert [str(identity) for identity in list_job(bench.store, UID).checkpoints] == [
        f"1.{n}" for n in range(1, 9)
    ]


def test_threads_share_a_store(server: CloudState) -> None:
    store = store_of(server)
    threads = [threading.Thread(target=store.create, args=(f"t/{n}", b"%d" % n)) for n in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(store.list("t/")) == 24
