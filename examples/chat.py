"""A client that keeps one session with `serve.py` alive, wherever the server is: each turn one JSON line.

It holds one connection. When that breaks, it asks the addresses in turn until one answers, and sends the turn again:
a request carries the whole session, so one that was answered and lost does no harm.

    python chat.py --at 10.77.0.2:8000 --at 10.77.0.3:8000 --turns 40 [--pause 0.2] [--log turns.jsonl]
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any, TextIO

PATIENCE_S = 300.0
ANSWER_S = 10.0


class Chat:
    """One session; `addresses` are HOST:PORT."""

    def __init__(self, addresses: list[str], session: str) -> None:
        self.addresses = itertools.cycle(addresses)
        self.session = session
        self.tokens = [1]
        self.address = next(self.addresses)
        self.connection: http.client.HTTPConnection | None = None

    def turn(self, word: int, count: int) -> dict[str, Any]:
        """Say one word more; the answer, with how long it took and where it came from."""
        asked = [*self.tokens, word]
        begun = time.monotonic()
        broken = 0
        while True:
            try:
                answer = self._ask({"session": self.session, "tokens": asked, "count": count})
                break
            except (OSError, http.client.HTTPException):
                broken += 1
                if self.connection is not None:
                    self.connection.close()
                self.connection, self.address = None, next(self.addresses)
                if time.monotonic() - begun > PATIENCE_S:
                    raise
                time.sleep(0.05)
        self.tokens = asked + answer["tokens"]
        return {**answer, "at": self.address, "broken": broken, "seconds": time.monotonic() - begun}

    def _ask(self, document: dict[str, Any]) -> dict[str, Any]:
        if self.connection is None:
            host, _, port = self.address.rpartition(":")
            self.connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_S)
        self.connection.request("POST", "/complete", json.dumps(document))
        answer: dict[str, Any] = json.loads(self.connection.getresponse().read())
        return answer


def talk(chat: Chat, turns: int, pause_s: float, log: TextIO) -> None:
    """All turns, one line each."""
    for number in range(turns):
        log.write(json.dumps({"turn": number, **chat.turn(number % 256, 4)}) + "\n")
        log.flush()
        time.sleep(pause_s)


def main() -> None:
    """Talk as told on the command line."""
    parser = argparse.ArgumentParser(description="a client that keeps one session")
    parser.add_argument("--at", action="append", required=True, metavar="HOST:PORT")
    parser.add_argument("--session", default="chat")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--pause", type=float, default=0.2, metavar="SECONDS")
    parser.add_argument("--log", type=Path)
    given = parser.parse_args()
    chat = Chat(given.at, given.session)
    if given.log is None:
        talk(chat, given.turns, given.pause, sys.stdout)
    else:
        with given.log.open("w") as log:
            talk(chat, given.turns, given.pause, log)


if __name__ == "__main__":
    main()
