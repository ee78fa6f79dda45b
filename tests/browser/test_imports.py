"""Somebody uploads the files of another tool, reads the preview, and imports them."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from connectors.models import Connector
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from tests.browser.conftest import Visit
from tests.browser.test_accessibility import violations
from tests.pipelines.imports.sample_projects import ecspresso_files

pytestmark = pytest.mark.browser


def test_files_are_uploaded_previewed_and_imported(
    demo: Pipeline, deployer: User, visit: Visit, page: Page, tmp_path: Path
) -> None:
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=role, scope=demo.scope)
    paths = []
    for name, text in ecspresso_files().items():
        (tmp_path / name).write_text(text)
        paths.append(tmp_path / name)

    visit("/pipelines/")
    page.get_by_role("link", name="Import").click()
    page.get_by_label("Files", exact=True).set_input_files(paths)
    page.get_by_label("Environment", exact=True).fill("prod")
    page.get_by_label("AWS connector").select_option(
        label=Connector.objects.get(identifier="sandbox_aws").name
    )
    page.get_by_label("Environment variables").fill("STAGE=prod")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("heading", name="Resources to create")).to_be_visible()
    expect(page.get_by_role("region", name="YAML of the pipeline").locator("pre")).to_contain_text(
        "EcsRollingDeploy"
    )
    assert violations(page) == []
    page.get_by_role("button", name="Import shop").click()

    expect(page.get_by_text("Imported shop from ecspresso")).to_be_visible()
    assert Pipeline.objects.filter(identifier="deploy_shop").exists()
