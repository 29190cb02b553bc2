"""The n-gram model behind HTTP, in a process of its own: prints its address, and ends with its input."""

import sys

from tests.models.openai.faulty_server import FaultyServer

if __name__ == "__main__":
    with FaultyServer(delay=0.002) as server:
        print(server.url, flush=True)
        sys.stdin.read()
