"""What the story sees of the machine beside its fleet: the uninterrupted runs, the processes, the final files."""

from __future__ import annotations

from pathlib import Path

from backends.clean import clean
from backends.errors import ReprieveError
from backends.nodes.ssh import SshLink
from backends.practice import rehearsed
from backends.records.node import Node
from console.operations.fleet import Fleet


class Stage:
    """This machine. Tests play on one of their own."""

    async def uninterrupted(self, plain_run: tuple[str, ...]) -> str:
        """The final digest of a run that nothing disturbs."""
        return await rehearsed.uninterrupted(plain_run)

    def living(self, directory: str, store: Path) -> list[int]:
        """Running processes of this fleet that work in `directory`."""
        return rehearsed.living(directory, store)

    async def steps(self, fleet: Fleet, node: Node, directory: str) -> int | None:
        """The step that the job's progress file on `node` tells last; None when it cannot be read."""
        link = await fleet.links.link(node)
        if not isinstance(link, SshLink):
            return None
        try:
            answer = await link.run_fixed(
                ("tail", "-n", "1", f"{directory}/progress.txt"), b"", timeout_s=5.0
            )
        except ReprieveError:
            return None
        words = clean(answer.stdout, limit=200).split()
        return int(words[1]) if words[:1] == ["step"] and words[1:] and words[1].isdigit() else None

    async def done(self, fleet: Fleet, node: Node, directory: str) -> list[str]:
        """The words of the DONE file on `node`; empty when there is none."""
        link = await fleet.links.link(node)
        if not isinstance(link, SshLink):
            raise ReprieveError(f"node {node.name} is not reached over SSH")
        answer = await link.run_fixed(("cat", f"{directory}/DONE"), b"", timeout_s=20.0)
        return [clean(word) for word in answer.stdout.split()]
