"""A program on two hosts that minds when they are not of one moment: `pair.py DIRECTORY RANK PORT PEER…`.

Rank 1 proposes the next step, rank 0 takes it and answers; each appends it to `progress.txt`. A connection that closes is
made anew, to whichever peer answers, and the last step is proposed again. Rank 0 ends with 3 where a step is neither its
own nor the next one: the two do not go on from one moment.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import sys
import time
from pathlib import Path
from typing import TextIO

PAUSE_S, PATIENCE_S = 0.01, 2.0


def note(file: TextIO, step: int) -> None:
    """One line a step."""
    file.write(f"{step}\n")
    file.flush()


def answer(port: int, file: TextIO) -> int:
    """Rank 0."""
    step = 0
    with socket.create_server(("0.0.0.0", port)) as server:
        while True:
            connection, _ = server.accept()
            with contextlib.suppress(OSError), connection, connection.makefile("rw") as talk:
                for line in talk:
                    asked = int(line)
                    if asked not in (step, step + 1):
                        file.write(f"out of step: {asked} was proposed, {step} is mine\n")
                        file.flush()
                        return 3
                    if asked > step:
                        step = asked
                        note(file, step)
                    talk.write(f"{step}\n")
                    talk.flush()


def propose(port: int, peers: list[str], file: TextIO) -> int:
    """Rank 1."""
    step = 0
    for peer in itertools.cycle(peers):
        with contextlib.suppress(OSError), socket.create_connection((peer, port), PATIENCE_S) as connection:
            talk = connection.makefile("rw")
            while True:
                talk.write(f"{step + 1}\n")
                talk.flush()
                if not (line := talk.readline()):
                    break
                step = int(line)
                note(file, step)
                time.sleep(PAUSE_S)
        time.sleep(PAUSE_S)
    return 0


def main(directory: str, rank: str, port: str, *peers: str) -> int:
    """Run one rank; its exit status."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    with (place / "progress.txt").open("a") as file:
        return answer(int(port), file) if rank == "0" else propose(int(port), list(peers), file)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
