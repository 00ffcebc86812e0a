"""Images of processes as CRIU leaves them, for tests of incremental saves: memory maps that change from save to save."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from backends.store.commit import SaveSource
from tests.support.store import NOW, make_save, pagemap_image

PAGE = 4096
PRESENT = 4


@dataclass
class Process:
    """The memory of one process: runs of pages by virtual address."""

    pid: int
    runs: dict[int, list[bytes]] = field(default_factory=dict)  # address of the first page → pages

    def pages(self) -> bytes:
        return b"".join(b"".join(self.runs[vaddr]) for vaddr in sorted(self.runs))

    def pagemap(self, pages_id: int) -> bytes:
        return pagemap_image(
            pages_id, [(vaddr, len(self.runs[vaddr]), PRESENT) for vaddr in sorted(self.runs)]
        )


def page(mark: int) -> bytes:
    """A page that differs for each mark; 0 is a page of zeros."""
    return mark.to_bytes(8, "little") * (PAGE // 8)


def images(processes: list[Process]) -> dict[str, bytes]:
    """What CRIU would write; the numbers of pages files go by the order, so they change when a process comes or goes."""
    found = {"inventory.img": b"inventory"}
    for number, process in enumerate(processes, 1):
        if any(process.runs.values()):
            found[f"pagemap-{process.pid}.img"] = process.pagemap(number)
            found[f"pages-{number}.img"] = process.pages()
    return found


def save_of(directory: Path, processes: list[Process], files: dict[str, bytes] | None = None) -> SaveSource:
    """A finished save of these processes."""
    return make_save(directory, images(processes), files, frozen_at=NOW)
