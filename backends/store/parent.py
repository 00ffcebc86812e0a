"""Which committed save the next one may refer to: this epoch's newest, or the full one that it refers to itself.

Only those two are safe: retention keeps the newest checkpoint and what it refers to, and a run of retention whose
listing is older than that keeps them too, since they were then newest or kept for the newest. A save that is due for a
synthetic full (`store.full`) is never followed by one that refers to its parent, which may go then. Whatever does not
fit (the table, the manifest, a pack that is gone) means a full save, never a guess.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from backends.errors import DamagedError, IncompatibleError, NotFoundError
from backends.store import layout
from backends.store.chain import Chain, read_chain
from backends.store.fetch import CheckpointReader
from backends.store.fileops import FileOps
from backends.store.format.base import Base
from backends.store.format.manifests import list_job, load_manifest
from backends.store.format.table import PageTable, drop_table, open_table
from backends.store.port import ObjectStore
from backends.store.sealing import JobKey


@dataclass(frozen=True)
class Parent:
    """What an incremental save refers to."""

    base: Base
    chain: Chain  # the saves that refer to it already


@contextlib.contextmanager
def open_parent(
    store: ObjectStore, uid: str, epoch: int, key: JobKey, tables: FileOps | None, page_hash: str
) -> Iterator[Parent | None]:
    """The parent of the next save of `epoch`; None: it must be a full one.

    `tables` is the directory of page tables on this machine, `page_hash` the name of the hash that the job wants. A
    table that leads to nothing is removed.
    """
    if tables is None:
        yield None
        return
    with open_table(tables, uid, key) as table:
        fits = table is not None and table.page_hash.name == page_hash
        found = _parent(store, uid, epoch, key, table) if table is not None and fits else None
        if found is None:
            drop_table(tables, uid)
        try:
            yield found
        except DamagedError:
            drop_table(tables, uid)
            raise


def _parent(store: ObjectStore, uid: str, epoch: int, key: JobKey, table: PageTable) -> Parent | None:
    listing = list_job(store, uid)
    mine = [identity for identity in listing.checkpoints if identity.epoch == epoch]
    if not mine or table.checkpoint not in mine:
        return None
    try:
        newest = load_manifest(store, uid, mine[-1], key)
        if str(table.checkpoint) not in (str(newest.id), newest.parent):
            return None
        if newest.id != table.checkpoint and newest.notes.get("full_due"):
            return None  # no synthetic full was made in time
        reader = CheckpointReader(store, uid, table.checkpoint, key)
        if reader.manifest.parent is not None or reader.manifest.content != table.content:
            return None
        sizes = {info.key: info.size for info in listing.data.get(table.checkpoint, ())}
        if any(sizes.get(layout.job(uid, pack.name)) != pack.size for pack in reader.index.packs):
            return None
        wrapped = reader.manifest.keys[str(table.checkpoint)]
        chain = Chain() if newest.id == table.checkpoint else read_chain(newest.notes)
        return Parent(Base(table.checkpoint, reader.index, table, wrapped), chain)
    except (DamagedError, NotFoundError, IncompatibleError):
        return None
