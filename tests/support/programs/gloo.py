"""Two processes on one node average gradients with gloo: gloo.py DIRECTORY (slowly while DIRECTORY/slow is there)."""

from __future__ import annotations

import hashlib
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist

STEPS = 200
SIZE = 2


def work(rank: int, home: pathlib.Path) -> None:
    """One of the processes; the first writes the digest of the weights at the end."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=SIZE)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    with (home / f"log-{rank}.txt").open("a", buffering=1) as log:
        for step in range(1, STEPS + 1):
            x = torch.randn(32, 32, generator=torch.Generator().manual_seed(step * SIZE + rank))
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x), x.sin().sum(1, keepdim=True)).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= SIZE
            optimizer.step()
            log.write(f"{step}\n")
            time.sleep(2 if (home / "slow").exists() else 0.01)
    if rank == 0:
        digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
        (home / "DONE.new").write_text(digest.hexdigest())
        (home / "DONE.new").rename(home / "DONE")
    dist.destroy_process_group()


def main() -> None:
    """Start both and wait for them."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500")
    torch.multiprocessing.spawn(work, args=(pathlib.Path(sys.argv[1]),), nprocs=SIZE)


if __name__ == "__main__":
    main()
