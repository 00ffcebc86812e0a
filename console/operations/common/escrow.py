"""Proof that the key kept by the controller is the one that a guard seals a job's saves with.

A controller that lost or mixed up a key would find out at the restore. So the guard seals a test object, and the key
is read from where it is kept, anew each time, to open it.
"""

from __future__ import annotations

from backends.errors import DamagedError
from backends.ids import new_nonce
from backends.records.job import Job
from backends.records.node import Node
from backends.store.sealing import JobKey, check_escrow
from console.operations.fleet import Fleet


async def prove_escrow(fleet: Fleet, job: Job, node: Node) -> None:
    """Return when the key kept here opens what the guard on `node` sealed.

    Raises:
        DamagedError: it does not.
        CredentialsError: this machine does not hold the key, or others may read it.
        UnreachableError: the node does not answer; nothing is known.
    """
    nonce = new_nonce()
    answer = await fleet.ask(node, "escrow", {"job": job.name, "nonce": nonce})
    test = answer.get("test")
    if not isinstance(test, str):
        raise DamagedError(f"node {node.name}: its answer to escrow holds no test object; update its bundle")
    check_escrow(JobKey.from_hex(fleet.job_key(job.uid)), job.uid, nonce, test)
