# SPDX-License-Identifier: GPL-2.0
import contextlib
import http.server
import io
import json
import tempfile
import threading
import unittest
from pathlib import Path

import ask


class Server(http.server.BaseHTTPRequestHandler):
    """Answers "gpu N" with the tokens N, N + 1 and so on, once all requests are there; 13 is cut short."""

    together = threading.Barrier(3, timeout=20)

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.together.wait()
        first = int(wanted["prompt"].split()[1])
        self.send_response(200)
        self.end_headers()
        for token in range(first, first + wanted["n_predict"]):
            self._send({"tokens": [token], "stop": False})
        if first != 13:
            self._send({"tokens": [], "stop": True})

    def _send(self, event: dict[str, object]) -> None:
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())

    def log_message(self, *arguments: object) -> None:
        pass


class Ask(unittest.TestCase):
    def setUp(self) -> None:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever).start()
        self.address = f"127.0.0.1:{server.server_port}"
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.log = Path(directory.name) / "log"
        self.answers = Path(directory.name) / "answers"

    def ask(self, first: int, *options: str) -> tuple[int, str]:
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            status = ask.main(["--first", str(first), "--requests", "3", "--tokens", "2", "--limit", "20",
                               "--log", str(self.log), *options, self.address])
        return status, errors.getvalue()

    def test_answers_are_saved_and_compared(self) -> None:
        self.assertEqual(self.ask(1, "--save", str(self.answers)), (0, ""))
        self.assertEqual(ask.read_answers(self.answers), {1: [1, 2], 2: [2, 3], 3: [3, 4]})
        self.assertEqual(len(self.log.read_text().splitlines()), 6)
        self.assertEqual(self.ask(1, "--expect", str(self.answers)), (0, ""))
        status, errors = self.ask(2, "--expect", str(self.answers))
        self.assertEqual(status, 1)
        self.assertEqual(errors, "request 4 differs from token 0 on: [4, 5] instead of []\n")

    def test_a_stream_that_ends_early_is_a_failure(self) -> None:
        status, errors = self.ask(12)
        self.assertEqual(status, 1)
        self.assertRegex(errors, "^request 13 at .*: Failure the stream ends before the text does\n$")

    def test_the_first_different_token_is_named(self) -> None:
        self.assertEqual(ask.differences({1: [5, 6, 7]}, {1: [5, 8, 7]}),
                         ["request 1 differs from token 1 on: [5, 6, 7] instead of [5, 8, 7]"])
        self.assertEqual(ask.differences({1: [5, 6]}, {1: [5, 6, 7]}),
                         ["request 1 differs from token 2 on: [5, 6] instead of [5, 6, 7]"])


if __name__ == "__main__":
    unittest.main()
