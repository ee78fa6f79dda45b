"""The page that imports shows what it would create, and creates exactly that."""

import re
from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from catalog.models import Service
from connectors.models import Connector
from pipelines.forms.imports import parse_texts, render_texts
from pipelines.imports.operations import create_import, preview_import
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.pipelines.imports.sample_projects import PIPECD_CONFIG, ecspresso_files, import_spec, pipecd_files

pytestmark = pytest.mark.django_db
ADDRESS = "/import/"


@pytest.fixture
def admin_browser(browse: Callable[[User], Client], admin: User, project: Scope) -> Client:
    Connector.objects.create(
        scope=project,
        identifier="aws",
        name="AWS",
        kind=Connector.Kind.AWS,
        spec={"type": "InheritFromDelegate", "delegateSelectors": ["x"]},
    )
    return browse(admin)


def upload(files: dict[str, str]) -> list[SimpleUploadedFile]:
    return [SimpleUploadedFile(name, text.encode()) for name, text in files.items()]


def create_import_of(actor: User, scope: Scope) -> Pipeline:
    """Import the sample project, and return its pipeline."""
    spec = import_spec(ecspresso_files(), environment="dev", connector="aws")
    digest = preview_import(actor=actor, scope=scope, spec=spec).digest
    return create_import(actor=actor, scope=scope, spec=spec, digest=digest).pipeline


def build_form(**more: object) -> dict[str, object]:
    return {
        "tool": "ecspresso",
        "in_scope": "account/default/demo",
        "environment": "dev",
        "connector": "aws",
        "values": "COLOR=green\n",
        **more,
    }


def test_uploaded_files_are_previewed_and_then_imported(admin_browser: Client) -> None:
    preview = admin_browser.post(ADDRESS, build_form(uploads=upload(ecspresso_files())))
    page = preview.content.decode()
    assert preview.status_code == 200
    for part in ("Resources to create", "EcsRollingDeploy", "ecs-task-def.json", "serviceName: shop"):
        assert part in page
    assert not Service.objects.exists()

    # A browser sends no files again: the text has them.
    texts = preview.context["form"]["texts"].value()
    digest = re.search(r'name="digest" value="(\w+)"', page)
    assert digest is not None
    imported = admin_browser.post(ADDRESS, build_form(texts=texts, digest=digest[1]))

    pipeline = Pipeline.objects.get(identifier="deploy_shop")
    assert imported.headers["Location"] == reverse("pipeline", args=[pipeline.pk])
    assert Service.objects.get(identifier="shop").variables == {"COLOR": "green"}


def test_pasted_files_with_a_changed_field_are_previewed_again(admin_browser: Client) -> None:
    texts = render_texts(ecspresso_files())
    changed = admin_browser.post(ADDRESS, build_form(texts=texts, digest="0" * 64))
    assert (changed.status_code, Service.objects.exists()) == (409, False)
    assert "Preview it again" in changed.content.decode()


def test_the_preview_and_the_message_name_the_pipelines_that_use_the_new_service(
    admin_browser: Client, admin: User, account: Scope, project: Scope
) -> None:
    older = create_import_of(admin, project)
    Service.objects.update(scope=account)
    Pipeline.objects.update(identifier="older")
    texts = render_texts(ecspresso_files())
    preview = admin_browser.post(ADDRESS, build_form(texts=texts)).content.decode()
    text = f"Used from now on in place of shop of a scope above: pipeline {older.name}."
    assert f"<dt>After the import</dt><dd>{text}</dd>" in preview

    digest = re.search(r'name="digest" value="(\w+)"', preview)
    assert digest is not None
    done = admin_browser.post(ADDRESS, build_form(texts=texts, digest=digest[1]), follow=True)
    assert f"Nothing was deployed. {text}" in done.content.decode()


def test_a_refusal_is_shown_with_file_and_line_and_keeps_the_text(admin_browser: Client) -> None:
    config = PIPECD_CONFIG + "  pipeline: {stages: [{name: WAIT_APPROVAL}]}\n"
    refused = admin_browser.post(ADDRESS, build_form(tool="pipecd", uploads=upload(pipecd_files(config))))
    page = refused.content.decode()
    assert refused.status_code == 400
    assert "app.pipecd.yaml, line 9: WAIT_APPROVAL" in page
    assert "=== taskdef.json" in page


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "Choose the files"),
        ({"texts": "region: x"}, "Begin each file with a line"),
        ({"texts": "=== a\n\n=== a\n"}, "A name is there twice"),
        ({"texts": "=== a\n", "values": "COLOR"}, "COLOR has no ="),
        ({"texts": "=== a\n", "connector": "foreign"}, "foreign"),
        ({"uploads": [SimpleUploadedFile("a.json", b"\xff\xfe\xfa")]}, "is not a text in UTF-8"),
        (
            {"uploads": [SimpleUploadedFile("a.json", text) for text in (b"1", b"2")]},
            "2 of the files are called a.json",
        ),
        (
            {"uploads": [SimpleUploadedFile("a.yml", b"a: |\n=== b.yml\n")]},
            "a.yml has a line that begins a file here: === b.yml",
        ),
    ],
)
def test_invalid_input_is_refused_at_its_field(
    admin_browser: Client, more: dict[str, object], message: str
) -> None:
    refused = admin_browser.post(ADDRESS, build_form(**more))
    assert refused.status_code == 400
    assert message in refused.content.decode()


def test_the_lists_lead_to_the_import(admin_browser: Client) -> None:
    for name in ("services", "pipelines"):
        assert f'href="{ADDRESS}"' in admin_browser.get(reverse(name)).content.decode()


def test_texts_keep_their_files() -> None:
    files = ecspresso_files()
    kept = parse_texts(render_texts(files).replace("\n", "\r\n"))
    assert {name: text.rstrip() for name, text in kept.items()} == {
        name: text.rstrip() for name, text in files.items()
    }
