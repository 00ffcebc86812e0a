"""A frozen older copy of a job: its guard is not taken away without a word, and it is ended by name and nothing else is."""

from __future__ import annotations

from tests.cli.test_fleet_commands import Command, document, practice, reprieve
from tests.support.operations import Practice

__all__ = ["practice", "reprieve"]  # fixtures


def zombie(practice: Practice, reprieve: Command) -> None:
    """`train` came back on n1 by a typed word, and its old node answers again with the frozen copy."""
    practice.running_job("train", "n0")
    practice.nodes["n0"].partitioned = True
    words = ("jobs", "restore", "train", "--to", "n1", "--i-know-it-is-dead", "train", "--yes")
    assert reprieve(*words)[0] == 0
    practice.nodes["n0"].partitioned = False
    practice.nodes["n0"].tick()


def test_a_guard_that_holds_a_zombie_is_not_taken_without_its_name_typed(
    practice: Practice, reprieve: Command
) -> None:
    zombie(practice, reprieve)
    code, _, err = reprieve("fleet", "uninstall", "n0", "--yes")
    assert code == 9
    assert "add --yes --confirm n0" in err
    assert practice.nodes["n0"].installed
    code, _, err = reprieve("fleet", "uninstall", "n0", "--dry-run")
    assert code == 0
    assert "a frozen older copy (zombie) of train" in err
    assert "reprieve jobs stop train --zombie-on n0" in err
    assert reprieve("fleet", "uninstall", "n1", "--yes")[0] == 0, "nothing stands still there"


def test_a_silent_node_may_hold_a_zombie_and_an_uninstalled_one_does_not(
    practice: Practice, reprieve: Command
) -> None:
    practice.nodes["n0"].partitioned = True
    code, _, err = reprieve("fleet", "uninstall", "n0", "--dry-run")
    assert (code, "whether it holds a frozen copy of a job is unknown" in err) == (0, True)
    assert reprieve("fleet", "uninstall", "n0", "--yes")[0] == 9


def test_a_zombie_is_ended_by_name_and_the_job_lives_on(practice: Practice, reprieve: Command) -> None:
    zombie(practice, reprieve)
    end = ("jobs", "stop", "train", "--zombie-on", "n0")
    assert reprieve(*end, "--yes")[0] == 9, "it cannot be undone: the name is wanted"
    ended = document(reprieve(*end, "--yes", "--confirm", "train", "-o", "json"))
    assert (ended["schema"], ended["node"], ended["epoch"]) == ("reprieve/zombie/v1", "n0", 1)
    old, new = practice.world.processes
    assert (old.node, old.alive, new.node, new.alive) == ("n0", False, "n1", True)
    shown = document(reprieve("jobs", "show", "train", "-o", "json"))
    assert (shown["node"], shown["epoch"], shown["state"]) == ("n1", 2, "protected")
    assert reprieve("fleet", "uninstall", "n0", "--yes")[0] == 0


def test_the_job_itself_is_never_ended_as_a_zombie(practice: Practice, reprieve: Command) -> None:
    zombie(practice, reprieve)
    for node, why in (("n1", "it is unrehearsed there"), ("n2", "nothing of it is there")):
        code, _, err = reprieve("jobs", "stop", "train", "--zombie-on", node, "--yes", "--confirm", "train")
        assert code == 2
        assert f"node {node} holds no zombie of train: {why}; nothing was ended" in err
    assert sum(process.alive and not process.frozen for process in practice.world.processes) == 1
