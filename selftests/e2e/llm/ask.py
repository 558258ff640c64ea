#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: GPL-2.0
"""Asks llama-server for texts, several at the same time, and compares them token by token.

    ask.py [options] --log FILE ADDRESS:PORT

Each request has a number, which its prompt depends on, and asks for the most probable tokens. All requests
are sent before the first one is answered. Answers are streamed; the log has a line "TIME REQUEST TOKEN"
for each token, as it arrives. Exit code 1: an answer is missing, incomplete, or not the expected one.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

Answers = dict[int, list[int]]


class Failure(Exception):
    """The text is for the user."""


def tokens_of(lines: Iterable[bytes]) -> Iterator[list[int]]:
    """The tokens of each event of a stream, which must be complete."""
    for line in lines:
        if not line.startswith(b"data: "):
            continue
        event = json.loads(line.removeprefix(b"data: "))
        if "error" in event:
            raise Failure(f"the server says {event['error']}")
        if event["stop"]:
            return
        yield event["tokens"]
    raise Failure("the stream ends before the text does")


class Asker:
    def __init__(self, server: str, tokens: int, limit: float, log: TextIO) -> None:
        self._server = server
        self._tokens = tokens
        self._limit = limit
        self._log = log
        self._lock = threading.Lock()
        self._all_sent: threading.Barrier
        self.answers: Answers = {}
        self.failures: list[str] = []

    def ask(self, numbers: Sequence[int]) -> None:
        self._all_sent = threading.Barrier(len(numbers), timeout=self._limit)
        threads = [threading.Thread(target=self._ask_safely, args=(number,)) for number in numbers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _ask_safely(self, number: int) -> None:
        try:
            self._ask_one(number)
        except (Failure, OSError, http.client.HTTPException, ValueError, KeyError,
                threading.BrokenBarrierError) as error:
            self.failures.append(f"request {number} at {self._server}: "
                                 f"{type(error).__name__} {error}")

    def _ask_one(self, number: int) -> None:
        connection = http.client.HTTPConnection(self._server, timeout=self._limit)
        connection.request("POST", "/completion", json.dumps({
            "prompt": f"gpu {number}", "n_predict": self._tokens, "temperature": 0, "stream": True,
            "return_tokens": True, "cache_prompt": False, "ignore_eos": True}),
            {"Content-Type": "application/json"})
        self._all_sent.wait()
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise Failure(f"status {response.status}: {response.read(500)!r}")
        answer: list[int] = []
        for tokens in tokens_of(response):
            answer += tokens
            self._note(number, tokens)
        self.answers[number] = answer
        if len(answer) != self._tokens:
            raise Failure(f"{len(answer)} tokens instead of {self._tokens}")

    def _note(self, number: int, tokens: Sequence[int]) -> None:
        with self._lock:
            for token in tokens:
                print(f"{time.time():.3f} {number} {token}", file=self._log, flush=True)


def differences(answers: Answers, expected: Answers) -> list[str]:
    """A line for each answer that is not the expected one."""
    result = []
    for number, answer in sorted(answers.items()):
        right = expected.get(number, [])
        if answer != right:
            at = next((i for i, pair in enumerate(zip(answer, right)) if pair[0] != pair[1]),
                      min(len(answer), len(right)))
            result.append(f"request {number} differs from token {at} on: {answer} instead of {right}")
    return result


def read_answers(file: Path) -> Answers:
    return {int(number): tokens for number, tokens in json.loads(file.read_text()).items()}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="ask", description=__doc__.splitlines()[0])
    parser.add_argument("server", metavar="ADDRESS:PORT")
    parser.add_argument("--first", type=int, default=0, help="the number of the first request")
    parser.add_argument("--requests", type=int, default=1, help="how many")
    parser.add_argument("--tokens", type=int, default=16, help="of each answer")
    parser.add_argument("--limit", type=float, default=600, help="seconds without a token")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--save", type=Path, help="write the answers")
    parser.add_argument("--expect", type=Path, help="compare with what --save has written")
    options = parser.parse_args(arguments)
    with options.log.open("w") as log:
        asker = Asker(options.server, options.tokens, options.limit, log)
        asker.ask(range(options.first, options.first + options.requests))
    failures = asker.failures
    if options.save:
        options.save.write_text(json.dumps(asker.answers))
    if options.expect:
        failures += differences(asker.answers, read_answers(options.expect))
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
