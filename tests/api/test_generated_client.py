"""A Python client generated from the OpenAPI document, asking the API."""

import importlib
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.test import Client

from rbac.models import User
from rbac.operations.api_keys import create_api_key
from tests.api.sample_project import World
from web.api.openapi import get_public_schema

pytestmark = pytest.mark.django_db

GENERATOR = Path(sys.executable).with_name("openapi-python-client")
# The generator knows no YAML: it sends it as bytes.
CONFIGURATION = {"content_type_overrides": {"application/yaml": "application/octet-stream"}, "post_hooks": []}
PACKAGE = "generated_slipway_client"


class DjangoTransport(httpx.BaseTransport):
    """Transport of httpx into this process."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = Client(SERVER_NAME="127.0.0.1").generic(
            request.method,
            request.url.raw_path.decode(),
            request.read(),
            content_type=request.headers.get("content-type", ""),
            headers=dict(request.headers),
        )
        return httpx.Response(response.status_code, headers=dict(response.items()), content=response.content)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the generated package; an operation or type that cannot be generated is a failure."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "schema.json").write_text(json.dumps(get_public_schema()))
    (folder / "config.json").write_text(json.dumps(CONFIGURATION))
    arguments = ["generate", "--path", "schema.json", "--config", "config.json", "--fail-on-warning"]
    made = subprocess.run(
        [GENERATOR, *arguments, "--meta", "none", "--output-path", PACKAGE],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    sys.path.insert(0, str(folder))
    yield PACKAGE
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_a_generated_client_reads_starts_and_is_refused(package: str, world: World, admin: User) -> None:
    def load(module: str) -> Any:
        return importlib.import_module(f"{package}.{module}")

    def connect(token: str) -> Any:
        return load("client").AuthenticatedClient(
            base_url="http://127.0.0.1",
            token=token,
            prefix="",
            auth_header_name="x-api-key",
            httpx_args={"transport": DjangoTransport()},
        )

    client = connect(create_api_key(actor=admin, user=admin, name="client")[1])
    listed = load("api.pipelines.pipelines_list").sync(client=client)
    assert world.pipeline.name in [pipeline.name for pipeline in listed.results]

    run = load("api.pipelines.pipelines_executions_create")
    artifact = load("models.artifact_choice").ArtifactChoice(tag="1.28")
    body = load("models.run_input").RunInput(artifact=artifact)
    key = str(uuid.uuid4())
    first, second = (
        run.sync(world.pipeline.pk, client=client, body=body, idempotency_key=key) for _ in range(2)
    )
    assert first.id == second.id
    execution = load("api.executions.executions_retrieve").sync(first.id, client=client)
    assert (execution.number, execution.status) == (first.number, first.status)

    refused = load("api.pipelines.pipelines_list").sync(client=connect("slp_pat_unknown"))
    assert (refused.status, refused.code) == (401, "authentication_failed")
