"""The description of the API, asked for by several clients of a process that has just started."""

import json
import subprocess
import sys

PROGRAM = """
import json, threading, time
import django
django.setup()
from django.test import Client
from drf_spectacular import plumbing
# Loads the addresses and the middleware, which would let one of the two wait for the other.
Client().get("/api/v1/orgs", headers={"host": "localhost"})
load = plumbing.import_string

def load_slowly(name):
    time.sleep(0.002)
    return load(name)

# The generator loads its extensions when they are first needed, as slowly as from a disk.
plumbing.import_string = load_slowly
answers = []
barrier = threading.Barrier(2)

def ask():
    client = Client(raise_request_exception=False)
    barrier.wait()
    answer = client.get("/api/schema/?format=json", headers={"host": "localhost"})
    answers.append([answer.status_code, len(answer.content)])

threads = [threading.Thread(target=ask) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps(answers))
"""


def test_two_clients_that_ask_first_both_get_the_description() -> None:
    process = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    first, second = json.loads(process.stdout)
    assert first == second
    assert first[0] == 200
