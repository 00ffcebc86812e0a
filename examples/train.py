"""A training loop in plain numpy that knows nothing of checkpoints.

A small two-layer network learns a fixed random function with a momentum optimizer. Everything is seeded, so the
digest over the weights after the last step is the same for every uninterrupted run on the same machine, and a run
that was lost and brought back is right only if it ends with that same digest.

State in memory: weights, momentum, a table of sample embeddings (`--state-mib`, 200 by default). Each step appends
one line to the progress file (step, loss, running hash over the weights; fsync'ed) and sends one line to a metrics
server over one TCP connection, which it opens again when the peer went away.

    python train.py --steps 400 --directory /data/run1 [--metrics HOST:PORT] [--step-seconds 0.05]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import socket
import time
from pathlib import Path

import numpy as np

WIDTH = 256
BATCH = 64


class Metrics:
    """One line a step to a metrics server; a lost connection is opened again, a missing server is not fatal."""

    def __init__(self, address: str | None) -> None:
        self._address = address
        self._socket: socket.socket | None = None

    def send(self, line: str) -> None:
        """Send one line; on failure drop it and reconnect at the next."""
        if self._address is None:
            return
        try:
            if self._socket is None:
                host, _, port = self._address.rpartition(":")
                self._socket = socket.create_connection((host, int(port)), timeout=2)
            self._socket.sendall(line.encode() + b"\n")
        except OSError:
            if self._socket is not None:
                self._socket.close()
            self._socket = None


class Model:
    """Weights, momentum and embeddings; `step` is one deterministic optimizer step."""

    def __init__(self, seed: int, state_mib: int) -> None:
        rng = np.random.default_rng(seed)
        self.first = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) * np.float32(0.05)
        self.second = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) * np.float32(0.05)
        self.momentum = [np.zeros_like(self.first), np.zeros_like(self.second)]
        rows = state_mib * (1 << 20) // (WIDTH * 4)
        self.table = rng.standard_normal((rows, WIDTH), dtype=np.float32)
        self.target = rng.standard_normal((WIDTH, WIDTH), dtype=np.float32)
        self.seed = seed

    def step(self, number: int) -> float:
        """Run step `number`; return the loss."""
        rng = np.random.default_rng((self.seed, number))
        rows = rng.integers(0, len(self.table), BATCH)
        inputs = self.table[rows]
        hidden = np.tanh(inputs @ self.first)
        error = hidden @ self.second - np.tanh(inputs @ self.target)
        gradient_second = hidden.T @ error / np.float32(BATCH)
        back = (error @ self.second.T) * (1 - hidden * hidden)
        gradient_first = inputs.T @ back / np.float32(BATCH)
        for weights, momentum, gradient in (
            (self.first, self.momentum[0], gradient_first),
            (self.second, self.momentum[1], gradient_second),
        ):
            np.multiply(momentum, np.float32(0.9), out=momentum)
            np.subtract(momentum, np.float32(0.01) * gradient, out=momentum)
            np.add(weights, momentum, out=weights)
        self.table[rows] += np.float32(0.001) * (back @ self.first.T)
        return float(np.mean(error * error))

    def digest(self, previous: str) -> str:
        """A running hash: the previous one with the weights of now."""
        state = hashlib.sha256(previous.encode())
        state.update(self.first.tobytes())
        state.update(self.second.tobytes())
        return state.hexdigest()


def main() -> None:
    """Train, and write the final digest to DONE in the run's directory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--state-mib", type=int, default=200)
    parser.add_argument("--step-seconds", type=float, default=0.05, help="least time a step takes")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--metrics", metavar="HOST:PORT")
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    model, metrics, running = Model(options.seed, options.state_mib), Metrics(options.metrics), ""
    with (options.directory / "progress.txt").open("a") as progress:
        for number in range(1, options.steps + 1):
            begun = time.monotonic()
            loss = model.step(number)
            running = model.digest(running)
            progress.write(f"step {number} loss {loss:.6f} hash {running[:16]}\n")
            progress.flush()
            os.fsync(progress.fileno())
            metrics.send(f"{options.directory.name} {number} {loss:.6f}")
            time.sleep(max(0.0, options.step_seconds - (time.monotonic() - begun)))
    final = hashlib.sha256(running.encode())
    final.update(model.table.data)
    done = options.directory / "DONE.tmp"
    done.write_text(f"{final.hexdigest()} {options.steps}\n")
    done.rename(options.directory / "DONE")


if __name__ == "__main__":
    main()
