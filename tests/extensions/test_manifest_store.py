"""A manifest store is one file: forms, checks, preview, run and rollback know it."""

import re
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from django.test import Client

from catalog.forms.services import build_service_spec
from catalog.models import Service
from catalog.operations import ManifestSpec, update_service
from connectors.models import FileNode
from deployments.execution.operations import roll_back_execution
from pipelines.editor.form_rows import StepManifestRow
from rbac.models import User
from tests.api.requests import rows_of
from tests.deployments.preview.comparison import load_preview
from tests.fixtures.engine_driver import Drive
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db(transaction=True)
Browse = Callable[[User], Client]
SHELF = {"shelf": "web"}
FILES = {"task": "RegisterTaskDefinitionRequest.yaml", "service": "CreateServiceRequest.yaml"}


@pytest.fixture
def library(drive: Drive) -> dict[tuple[str, str], str]:
    """The library with the demo's manifests."""
    shelves: dict[tuple[str, str], str] = sys.modules["catalog.manifests.stores.snippets"].LIBRARY
    for name, file_name in FILES.items():
        shelves["web", name] = FileNode.objects.get(path=f"/ECS Tutorial/{file_name}").content
    return shelves


def _move(**place: str) -> Service:
    """Move the manifests of the demo's service into the library."""
    service = Service.objects.get(identifier="myapp")
    manifests = [
        ManifestSpec("task_def", "EcsTaskDefinition", "Snippet", ("task",), place=place),
        ManifestSpec("service_def", "EcsServiceDefinition", "Snippet", ("service",), place=place),
    ]
    spec = replace(build_service_spec(service), manifests=manifests)
    return update_service(actor=User.objects.get(username="admin"), service=service, spec=spec)


def test_the_form_of_a_service_asks_for_the_place(
    library: dict[tuple[str, str], str], browse: Browse
) -> None:
    service, client = _move(**SHELF), browse(User.objects.get(username="admin"))
    page = client.get(f"/services/{service.pk}/edit/").content.decode()
    assert '<option value="Snippet" selected>In the snippet library</option>' in page
    field = re.search(r'<div data-stores="Snippet">.*?</div>\s*</div>', page, re.DOTALL)
    assert field
    assert "Shelf of the library" in field[0]
    assert 'value="web"' in field[0]
    assert re.search(r'<div class="wide" data-stores="[^"]*Snippet[^"]*">', page)
    form = {"name": "My app", "version": service.version, "image": "nginx", "tag": "1.27"}
    row = {"kind": "EcsTaskDefinition", "store": "Snippet", "shelf": "db", "paths": "task"}
    posted = client.post(
        f"/services/{service.pk}/edit/", form | rows_of("manifests", **row) | rows_of("variables")
    )
    assert posted.status_code == 302, posted.content.decode()
    manifest = Service.objects.get(pk=service.pk).manifests.get()
    assert (manifest.store, manifest.paths, manifest.place) == ("Snippet", ["task"], {"shelf": "db"})


def test_the_store_checks_its_manifests(drive: Drive) -> None:
    with pytest.raises(BadInput) as refused:
        _move()
    assert "place needs the shelf of the library" in str(refused.value.errors)
    with pytest.raises(BadInput) as refused:
        _move(bucket="files", **SHELF)
    assert "unknown key bucket of place in the store Snippet; use one of shelf" in str(refused.value.errors)


def test_a_step_can_keep_its_manifest_there() -> None:
    row = StepManifestRow(is_needed=True)
    cells = {"store": "Snippet", "shelf": "web", "file": "task"}
    entry = {"type": "Snippet", "spec": {"shelf": "web", "files": "task"}}
    assert row.parse_cells(cells) == entry
    cells_shown = row.render_cells(entry) or {}
    assert {name: text for name, text in cells_shown.items() if text} == cells
    assert [column.shown_for for column in row.columns if column.name == "shelf"] == [("Snippet",)]


def test_a_run_and_its_rollback_use_the_files_of_the_store(
    drive: Drive, library: dict[tuple[str, str], str]
) -> None:
    _move(**SHELF)
    assert [step["failure"] for step in load_preview(drive)["steps"]] == [None]
    first = drive.run("1.27")
    assert (first.status, first.outcome) == ("SUCCESS", "COMPLETED"), first.failure
    log = drive.log(first)
    assert "Fetching EcsTaskDefinition from snippet library" in log
    assert "Using version 7 of task" in log
    second = drive.run("1.28")
    roll_back_execution(actor=drive.deployer, execution=second)
    drive.until_over(second)
    assert second.status == "ROLLED_BACK", second.failure

    del library["web", "task"]
    failed = drive.run("1.29")
    assert failed.failure is not None
    assert "The shelf web has no snippet task." in failed.failure["message"]
