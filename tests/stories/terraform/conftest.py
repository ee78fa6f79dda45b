"""A server that keeps states as Terraform's http backend wants it, and pipelines that use it."""

import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from textwrap import indent
from typing import Any

import pytest

from tests.conftest import NO_TERRAFORM
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.engine.conftest import write
from tests.steps.kinds.conftest import worker

__all__ = ["_full_buckets", "drive", "worker", "write"]

needs_terraform = pytest.mark.skipif(shutil.which("terraform") is None, reason=NO_TERRAFORM)

MAIN = """\
terraform {
  backend "http" {}
}
variable "name" {}
variable "key" {
  default   = ""
  sensitive = true
}
resource "terraform_data" "cluster" {
  input = var.name
}
output "cluster_name" {
  value = terraform_data.cluster.output
}
output "subnets" {
  value = ["a", "b"]
}
output "secret" {
  value     = "${var.key}!"
  sensitive = true
}
"""


@dataclass
class States:
    """The states by path, and the locks that somebody holds."""

    url: str
    states: dict[str, bytes] = field(default_factory=dict)
    locks: dict[str, bytes] = field(default_factory=dict)

    def backend(self, name: str = "main") -> str:
        """The settings of the backend for one state."""
        at = f"{self.url}/{name}"
        return f'address = "{at}"\nlock_address = "{at}"\nunlock_address = "{at}"\n'

    def inputs(self, name: str = "main") -> list[Any]:
        """Return the inputs of the resources of a state."""
        state = json.loads(self.states.get(f"/{name}", b"{}"))
        return [
            (instance["attributes"]["input"] or {}).get("value")
            for resource in state.get("resources", ())
            for instance in resource["instances"]
        ]


@pytest.fixture
def states() -> Iterator[States]:  # noqa: C901 - one short method for each verb of the protocol
    """Run a state server on a separate port."""

    class Handler(BaseHTTPRequestHandler):
        def _send(self, status: int, body: bytes = b"") -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        @property
        def name(self) -> str:
            return self.path.partition("?")[0]

        def do_GET(self) -> None:
            state = server_states.states.get(self.name)
            self._send(404) if state is None else self._send(200, state)

        def do_POST(self) -> None:
            server_states.states[self.name] = self._body()
            self._send(200)

        def do_LOCK(self) -> None:
            body = self._body()
            current_lock = server_states.locks.setdefault(self.name, body)
            self._send(200 if current_lock is body else 423, current_lock)

        def do_UNLOCK(self) -> None:
            self._body()
            server_states.locks.pop(self.name, None)
            self._send(200)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server_states = States(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server_states
    server.shutdown()
    server.server_close()
    thread.join()


def terraform_step(
    states: States,
    name: str = "net",
    type_: str = "Apply",
    main: str = MAIN,
    fields: str = "",
    variables: str = "",
    backend: str = "",
) -> str:
    """Return a Terraform step for delegates with the tag `scripts`; `fields` are further spec fields."""
    backend = indent(backend or states.backend(), " " * 8)
    variables = variables or "variables: [{name: name, type: String, value: <+env.identifier>-cluster}]"
    return f"""
- step:
    identifier: {name}
    type: Terraform{type_}
    delegateSelectors: [scripts]
    spec:
      provisionerIdentifier: network
      configFiles:
        type: Inline
        spec:
          content: |
{indent(main, " " * 12)}
      backendConfig: |
{backend}
      {variables}
{indent(fields, " " * 6)}
"""
