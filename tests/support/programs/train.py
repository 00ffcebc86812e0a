"""Training on the CPU with DataLoader workers: train.py --kind fork|file_system|spawn DIRECTORY (slowly while DIRECTORY/slow is there)."""

from __future__ import annotations

import hashlib
import pathlib
import sys
import time

import torch
from torch.utils.data import DataLoader

STEPS = 200


class Waves:
    """Vectors and the sums of their sines, each made from its own number."""

    def __len__(self) -> int:
        return 1600

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(32, generator=torch.Generator().manual_seed(number))
        return x, x.sin().sum().unsqueeze(0)


def main() -> None:
    """Train to the end; DONE then holds the digest of the weights."""
    kind, home = sys.argv[2], pathlib.Path(sys.argv[3])
    torch.manual_seed(1)
    torch.set_num_threads(1)
    if kind == "file_system":
        torch.multiprocessing.set_sharing_strategy("file_system")
    loader = DataLoader(
        Waves(),
        batch_size=32,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context="spawn" if kind == "spawn" else "fork",
    )
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    log = (home / "log.txt").open("a", buffering=1)
    step = 0
    while step < STEPS:
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            step += 1
            log.write(f"{step} {loss.item():.9g}\n")
            time.sleep(2 if (home / "slow").exists() else 0.01)
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    (home / "DONE.new").write_text(digest)
    (home / "DONE.new").rename(home / "DONE")


if __name__ == "__main__":
    main()
