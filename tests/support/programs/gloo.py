"""Two processes on one node that average their gradients with gloo: torchrun … gloo.py DIRECTORY."""

from __future__ import annotations

import hashlib
import pathlib
import sys
import time

import torch
import torch.distributed as dist

STEPS = 200


def main() -> None:
    """Train to the end; DONE then holds the digest of the weights."""
    home = pathlib.Path(sys.argv[1])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    log = (home / f"log-{rank}.txt").open("a", buffering=1)
    for step in range(1, STEPS + 1):
        x = torch.randn(32, 32, generator=torch.Generator().manual_seed(step * size + rank))
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), x.sin().sum(1, keepdim=True)).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= size
        optimizer.step()
        log.write(f"{step}\n")
        time.sleep(0.5 if (home / "slow").exists() else 0.01)
    if rank == 0:
        digest = hashlib.sha256(
            b"".join(p.detach().numpy().tobytes() for p in model.parameters())
        ).hexdigest()
        (home / "DONE.new").write_text(digest)
        (home / "DONE.new").rename(home / "DONE")
    dist.destroy_process_group()


main()
