"""The contract every ObjectStore keeps; subclasses give a store. Not collected by itself."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator

import pytest

from backends.errors import DamagedError, ExistsError, NotFoundError, UsageError
from backends.store.port import ObjectStore


class StoreSuite(ABC):
    """Subclass as `Test…` with a fixture `store`."""

    races = 12  # how often sixteen writers race

    @abstractmethod
    def store(self, tmp_path: object) -> ObjectStore:
        """A fresh, empty store."""

    def test_what_is_created_reads_back_whole_and_in_part(self, store: ObjectStore) -> None:
        assert store.create("jobs/a/x", b"0123456789") == 10
        assert store.read("jobs/a/x") == b"0123456789"
        assert store.read_range("jobs/a/x", 3, 4) == b"3456"
        assert store.read_range("jobs/a/x", 10, 0) == b""
        info = store.info("jobs/a/x")
        assert info is not None
        assert (info.key, info.size) == ("jobs/a/x", 10)

    def test_streams_are_written_as_they_come(self, store: ObjectStore) -> None:
        def parts() -> Iterator[bytes]:
            for number in range(50):
                yield bytes([number]) * 100_000

        assert store.create("big", parts()) == 5_000_000
        assert store.read_range("big", 4_900_000, 5) == bytes([49]) * 5
        assert store.create("empty", iter(())) == 0
        assert store.read("empty") == b""

    def test_a_second_create_loses_and_changes_nothing(self, store: ObjectStore) -> None:
        store.create("k", b"first")
        with pytest.raises(ExistsError, match="k: exists"):
            store.create("k", b"second")
        assert store.read("k") == b"first"

    def test_a_failing_stream_leaves_no_object(self, store: ObjectStore) -> None:
        def parts() -> Iterator[bytes]:
            yield b"half"
            raise DamagedError("the source broke")

        with pytest.raises(DamagedError, match="source broke"):
            store.create("d/k", parts())
        assert store.info("d/k") is None
        assert store.list("") == []
        store.create("d/k", b"whole")
        assert store.read("d/k") == b"whole"

    def test_absent_objects(self, store: ObjectStore) -> None:
        store.create("other", b"")
        for key in ("none", "other/below", "a/b/c"):
            with pytest.raises(NotFoundError if key != "other/below" else (NotFoundError, DamagedError)):
                store.read(key)
        assert store.info("a/b/c") is None
        store.delete("a/b/c")

    def test_ranges_beyond_the_end_are_damage(self, store: ObjectStore) -> None:
        store.create("k", b"0123")
        for offset, length in ((0, 5), (4, 1), (9, 1), (-1, 2), (0, -1)):
            with pytest.raises(DamagedError):
                store.read_range("k", offset, length)

    def test_lists_are_complete_and_ordered(self, store: ObjectStore) -> None:
        names = ["jobs/a/9", "jobs/a/10", "jobs/a.b", "jobs/ab/1", "jobs/a/epochs/2", "jobs/b/1", "latest"]
        for name in names:
            store.create(name, name.encode())
        assert [info.key for info in store.list("")] == sorted(names)
        assert [info.key for info in store.list("jobs/a/")] == ["jobs/a/10", "jobs/a/9", "jobs/a/epochs/2"]
        assert [info.key for info in store.list("jobs/a")] == sorted(
            n for n in names if n.startswith("jobs/a")
        )
        assert store.list("nothing/here/") == []
        store.delete("jobs/a/9")
        assert [info.key for info in store.list("jobs/a/")] == ["jobs/a/10", "jobs/a/epochs/2"]

    def test_hints_are_replaced(self, store: ObjectStore) -> None:
        store.replace("jobs/a/latest", b"1.1")
        store.replace("jobs/a/latest", b"1.2")
        assert store.read("jobs/a/latest") == b"1.2"
        assert len(store.list("")) == 1

    @pytest.mark.parametrize(
        "key",
        ["", "/", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/.", "a\\b", "a\0b", "a\nb", ".tmp-x", "a/.b", "ä",
         "x" * 300, "/".join("a" * 15), "a b"],
    )  # fmt: skip
    def test_odd_keys_are_refused_everywhere(self, store: ObjectStore, key: str) -> None:
        for call in (store.read, store.info, store.delete):
            with pytest.raises(UsageError):
                call(key)
        with pytest.raises(UsageError):
            store.create(key, b"")
        with pytest.raises(UsageError):
            store.replace(key, b"")
        with pytest.raises(UsageError):
            store.read_range(key, 0, 0)

    def test_sixteen_writers_race_and_exactly_one_wins(self, store: ObjectStore) -> None:
        for turn in range(self.races):
            barrier = threading.Barrier(16, timeout=20)
            won: list[int] = []
            lost: list[int] = []

            def take(
                number: int, key: str, gate: threading.Barrier, winners: list[int], losers: list[int]
            ) -> None:
                gate.wait()
                try:
                    store.create(key, b"%d" % number * 1000)
                    winners.append(number)
                except ExistsError:
                    losers.append(number)
                    assert store.read(key)

            threads = [
                threading.Thread(target=take, args=(number, f"race/{turn}/epochs/1", barrier, won, lost))
                for number in range(16)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
            assert len(won) == 1
            assert len(lost) == 15
            assert store.read(f"race/{turn}/epochs/1") == b"%d" % won[0] * 1000
