"""What every ledger and its locks keep, whatever database they live in."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from backends.errors import StillRunningError, UsageError
from backends.ledger.history import SqlLedger
from backends.ledger.locks import Locks
from backends.ledger.open import open_ledger, open_locks
from backends.ledger.records import Item, JobCurrent, NodeSeen, Reclaim, Run, SaveMeasure, Word, Work
from backends.records.event import Event

ROOT = Path(__file__).parents[2]
UID = "u" * 20
_HOLD = (
    "import pathlib, sys, time\n"
    "from backends.ledger.open import open_locks\n"
    "with open_locks(pathlib.Path(sys.argv[1]), sys.argv[2] or None).only_runner('job.x', 'job x'):\n"
    "    print('held', flush=True); time.sleep(600)\n"
)


def reclaim(key: str, at: float = 5.0) -> Reclaim:
    return Reclaim(key, at, "train", UID, "a", False, None, 61.5, 60.0, 4.0, 2.0, "1.3", "b", 2, 1)


class LedgerSuite:
    """Subclasses say where: `url` None for a file in `state`."""

    url: str | None = None

    @pytest.fixture
    def opened(self, tmp_path: Path) -> Callable[[], SqlLedger]:
        """Opens the same ledger again and again; it is empty at the beginning."""
        return lambda: open_ledger(tmp_path, self.url)

    @pytest.fixture
    def locks(self, tmp_path: Path) -> Callable[[], Locks]:
        """Opens the locks beside it, as one more controller."""
        return lambda: open_locks(tmp_path, self.url)

    def test_everything_kept_is_read_back_by_a_second_opening(self, opened: Callable[[], SqlLedger]) -> None:
        ledger = opened()
        job = JobCurrent("train", UID, "a", 1, "protected", "1.3", 10.0, 11.0, 11.0, "", {"pid": 4})
        node = NodeSeen("a", 12.0, "g1", 0.5, "none", None, 7, {"x": 1}, {})
        ledger.put_job(JobCurrent("old", UID, "a", 1, "protected", None, None, 11.0, None, "", {}))
        ledger.put_job(job)
        ledger.put_node(node)
        ledger.put_reclaim(reclaim("r/1"))
        ledger.put_reclaim(reclaim("r/1", 6.0))
        ledger.add_save(SaveMeasure(UID, "1.3", 1753000009.123456, 0.2, 1.5, 1 << 40))
        ledger.add_save(SaveMeasure(UID, "1.3", 9.0, 0.2, 1.5, 1000))
        ledger.add_observed("a", "p", 1800)
        ledger.add_observed("a", "p", 1800)
        ledger.add_word(Word(1.0, "root", "dead", "train", UID, 1))
        ledger.close()
        again = opened()
        assert again.jobs() == {UID: job}
        assert again.nodes() == {"a": node}
        assert again.reclaims() == [reclaim("r/1", 6.0)]
        assert again.saves(UID) == [SaveMeasure(UID, "1.3", 1753000009.123456, 0.2, 1.5, 1 << 40)]
        assert again.observed_hours() == {"p": 1.0}
        assert [word.who for word in again.words()] == ["root"]
        again.forget_job(UID)
        assert again.jobs() == {}
        again.close()

    def test_events_are_kept_once_and_the_newest_come_last(self, opened: Callable[[], SqlLedger]) -> None:
        ledger = opened()
        for number in range(5):
            job = "train" if number % 2 else "x"
            assert ledger.add_event(Event(f"g/{number}", "t", "save.committed", "a", job, "100 % of ? saved"))
        assert not ledger.add_event(Event("g/1", "t", "other"))
        found = ledger.events(limit=2)
        assert [event.id for _, event in found] == ["g/3", "g/4"]
        assert found[0][1].text == "100 % of ? saved"
        assert [event.id for _, event in ledger.events(job="train")] == ["g/1", "g/3"]
        numbers = [number for number, _ in ledger.events()]
        assert numbers == sorted(numbers)
        assert [number for number, _ in ledger.events(after=numbers[2])] == numbers[3:]
        ledger.close()

    def test_a_job_written_by_one_is_seen_by_the_other_at_once(self, opened: Callable[[], SqlLedger]) -> None:
        one, other = opened(), opened()
        for state in ("trial", "protected"):
            one.put_job(JobCurrent("train", UID, "a", 1, state))
            assert one.jobs()[UID].state == other.jobs()[UID].state == state
        other.forget_job(UID)
        assert one.jobs() == other.jobs() == {}

    def test_running_time_is_summed_and_events_are_told_by_kind(
        self, opened: Callable[[], SqlLedger]
    ) -> None:
        one, other = opened(), opened()
        work = Work(UID, "train", "pool", "spot", "2026-12", 10.0)
        one.add_work([work, work])
        other.add_work([work, replace(work, month="2027-01")])
        assert one.work() == [replace(work, seconds=30.0), replace(work, month="2027-01")]
        for number, kind in enumerate(("node.lost", "job.zombie", "node.lost")):
            one.add_event(Event(f"c/{number}", "2026-12-01T00:00:00Z", kind))
        assert [event.id for _, event in other.events(kinds=("node.lost",))] == ["c/0", "c/2"]
        assert [event.id for _, event in other.events(kinds=("node.lost",), limit=1)] == ["c/2"]

    def test_run_item_and_step_states(self, opened: Callable[[], SqlLedger]) -> None:
        ledger = opened()
        items = [Item("r1", str(n), f"j{n}", {"to": None}) for n in range(12)]
        ledger.open_run(Run("r1", "batch", 1.0, {"file": "x"}), items)
        ledger.open_run(Run("r0", "restore", 0.5, {}), [])
        ledger.close_item("r1", "3", "failed", "no node fits", {"epoch": None})
        ledger.close_run("r1", "partial", "1 failed", 9.0)
        ledger.intend("r1", "3", "claim", {"nonce": "n"}, 2.0)
        ledger.observe("r1", "3", "claim", {"won": True}, 3.0)
        ledger.close()
        again = opened()
        assert [item.item for item in again.items("r1")] == [str(n) for n in range(12)]
        assert again.find_item("r1", "3") == Item(
            "r1", "3", "j3", {"to": None}, "failed", "no node fits", {"epoch": None}
        )
        assert again.find_item("r1", "99") is None
        assert [run.id for run in again.runs()] == ["r0", "r1"]  # newest first
        found = again.find_run("r1")
        assert found is not None
        assert (found.state, found.finished_at) == ("partial", 9.0)
        assert again.find_run("r2") is None
        assert [(s.number, s.step, s.phase, s.data, s.at) for s in again.steps("r1", "3")] == [
            (1, "claim", "intended", {"nonce": "n"}, 2.0),
            (2, "claim", "observed", {"won": True}, 3.0),
        ]
        again.close()

    def test_two_openings_write_in_turn(self, opened: Callable[[], SqlLedger]) -> None:
        first, second = opened(), opened()
        first.add_event(Event("a/1", "t", "k"))
        second.add_event(Event("b/1", "t", "k"))
        assert [event.id for _, event in first.events()] == ["a/1", "b/1"]
        first.close()
        second.close()

    def test_threads_of_two_openings_lose_nothing(self, opened: Callable[[], SqlLedger]) -> None:
        ledgers = [opened(), opened()]

        def write(mine: int) -> None:
            for number in range(20):
                ledgers[mine % 2].add_event(Event(f"{mine}/{number}", "t", "k"))
                ledgers[mine % 2].add_observed("n", "p", 36.0)

        threads = [threading.Thread(target=write, args=(mine,)) for mine in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ledgers[0].events()) == 80
        assert ledgers[1].observed_hours() == {"p": pytest.approx(0.8)}
        for ledger in ledgers:
            ledger.close()

    def test_a_transaction_that_fails_leaves_nothing(self, opened: Callable[[], SqlLedger]) -> None:
        ledger = opened()
        with pytest.raises(Exception, match=r".+"):
            ledger.open_run(Run("r1", "batch", 1.0, {}), [Item("r1", "1", "a", {}), Item("r1", "1", "b", {})])
        assert ledger.find_run("r1") is None
        assert ledger.items("r1") == []
        ledger.close()

    def test_any_text_comes_back_as_it_was(self, opened: Callable[[], SqlLedger]) -> None:
        ledger = opened()
        texts = (
            "",
            "100 % ? %s :x $1",
            "'; DROP TABLE steps; --",
            "\\",
            "ü\u2028\u202e",
            "🙂" * 40,
            "\x1b[31m\r\n\t",
        )
        for number, text in enumerate(texts, start=1):
            ledger.intend("r", "i", text, {text: [text, None, -(1 << 62), 0.1]}, 2.0)
            last = ledger.steps("r", "i")[-1]
            assert (last.number, last.step, last.data) == (
                number,
                text,
                {text: [text, None, -(1 << 62), 0.1]},
            )
        ledger.close()

    def test_one_runner_per_item(self, locks: Callable[[], Locks]) -> None:
        mine, other = locks(), locks()
        with mine.only_runner("job.x", "job x"):
            for each in (mine, other):
                with pytest.raises(StillRunningError, match="job x"), each.only_runner("job.x", "job x"):
                    pass
            with other.only_runner("job.y", "job y"):
                pass
        with other.only_runner("job.x", "job x"):
            pass
        with pytest.raises(UsageError), mine.only_runner("../x", "x"):
            pass
        mine.close()
        other.close()

    def test_a_lock_passes_on_when_its_holder_is_killed(
        self, locks: Callable[[], Locks], tmp_path: Path
    ) -> None:
        argv = [sys.executable, "-c", _HOLD, str(tmp_path), self.url or ""]
        holder = subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, env=dict(os.environ))
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        mine = locks()
        try:
            with pytest.raises(StillRunningError), mine.only_runner("job.x", "job x"):
                pass
        finally:
            holder.kill()
            holder.communicate()
        for _ in range(50):  # 5 s
            try:
                with mine.only_runner("job.x", "job x"):
                    break
            except StillRunningError:
                threading.Event().wait(0.1)
        else:
            pytest.fail("the lock of a killed holder was still held after 5 s")
        mine.close()
