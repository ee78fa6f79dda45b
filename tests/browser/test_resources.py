"""Files, connectors and secrets as a person makes and changes them in a browser."""

import re

import pytest
from playwright.sync_api import Page, Route, expect

from catalog.models import Infrastructure, Service
from connectors.models import Connector, FileNode
from connectors.operations import save_file
from ops.demo.pipelines import FOLDER, TASK_DEFINITION
from pipelines.models import Pipeline
from rbac.models import User
from tests.browser.conftest import Visit
from tests.ports import free_port
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.browser


@pytest.fixture
def deployer(demo: Pipeline) -> User:
    """The visitor: a user who may change things."""
    return User.objects.get(username="admin")


@pytest.fixture
def node(demo: Pipeline) -> FileNode:
    return FileNode.objects.get(path=f"{FOLDER}/{TASK_DEFINITION}")


def test_a_mistake_is_shown_while_it_is_written_and_a_save_is_a_version(
    page: Page, visit: Visit, node: FileNode
) -> None:
    visit(f"/files/{node.pk}/")
    page.get_by_role("link", name="Edit", exact=True).click()
    area = page.get_by_label("Content", exact=True)
    area.fill(node.content.replace("cpu: '256'", "cpu: [256"))
    problems = page.get_by_role("list", name="Problems in the text")
    expect(problems.get_by_text(re.compile(r"Line \d+, column \d+"))).to_be_visible()
    area.fill(node.content.replace("cpu: '256'", "cpu: '512'"))
    expect(page.get_by_text("Checked as a task definition.")).to_be_visible()
    page.get_by_label("Comment").fill("More CPU")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("saved as version 2")).to_be_visible()
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("row", name="removed cpu: '256'")).to_be_visible()
    expect(page.get_by_text("More CPU")).to_be_visible()
    page.get_by_role("button", name="Restore version 1").click()
    expect(page.get_by_text("restored as version 3")).to_be_visible()


def test_a_clean_up_is_shown_before_it_is_taken(page: Page, visit: Visit, node: FileNode) -> None:
    visit(f"/files/{node.pk}/edit/")
    area = page.get_by_label("Content", exact=True)
    copied = f"revision: 7\n{node.content}"
    area.fill(copied)
    expect(page.get_by_role("list", name="Problems in the text")).to_contain_text("Clean up")
    page.get_by_role("button", name="Clean up", exact=True).click()
    dialog = page.get_by_role("dialog", name="Cleanup changes")
    expect(dialog.get_by_role("row", name="removed revision: 7")).to_be_visible()
    expect(dialog.get_by_text("Removed revision: set only by AWS")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    expect(area).to_have_value(copied)
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_role("button", name="Clean up", exact=True).click()
    dialog.get_by_role("button", name="Use the cleaned text").click()
    expect(area).to_have_value(node.content)
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Clean up", exact=True).click()
    expect(page.get_by_text("There is nothing to clean up.")).to_be_visible()
    area.press("Control+z")
    expect(area).to_have_value(copied)


def test_a_file_is_made_where_its_path_says(page: Page, visit: Visit, demo: Pipeline) -> None:
    visit("/files/new/")
    page.get_by_label("Path").fill("/web/task.yaml")
    page.get_by_label("Content", exact=True).fill("containerDefinitions: [")
    expect(page.get_by_role("list", name="Problems in the text")).to_contain_text("Line 2")
    page.get_by_role("button", name="Create file").click()
    expect(page.get_by_text("/web/task.yaml saved as version 1. It has 1 error")).to_be_visible()
    page.get_by_role("link", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("link", name="Restore").click()
    page.get_by_role("button", name="Restore /web/task.yaml").click()
    expect(page.get_by_text("/web/task.yaml is restored with its history.")).to_be_visible()


def test_keys_and_values_of_awss_model_are_suggested(page: Page, visit: Visit, node: FileNode) -> None:
    visit(f"/files/{node.pk}/edit/")
    area = page.get_by_label("Content", exact=True)
    area.fill("containerDefinitions: []\nnetworkMode: ")
    area.press("Control+End")
    area.press("Control+Space")
    expect(page.get_by_role("option", name="awsvpc")).to_be_visible()


def test_who_writes_before_the_editor_has_loaded_goes_on_where_they_were(
    page: Page, visit: Visit, node: FileNode
) -> None:
    routes: list[Route] = []
    page.route(re.compile(r"/editor\.([0-9a-f]+\.)?js"), lambda route: routes.append(route))
    visit(f"/files/{node.pk}/")
    with page.expect_request(re.compile(r"/editor\.")):
        page.get_by_role("link", name="Edit", exact=True).click()
    area = page.get_by_label("Content", exact=True)
    area.focus()
    area.evaluate("area => area.setSelectionRange(0, 0)")
    while not routes:
        page.wait_for_timeout(20)
    routes.pop().continue_()
    expect(page.locator(".editor.on")).to_be_visible()
    page.keyboard.insert_text("# mine\n")
    expect(area).to_have_value(f"# mine\n{node.content}")


def test_a_text_written_at_the_same_time_as_another_is_not_lost(
    page: Page, visit: Visit, node: FileNode, deployer: User, complaints: list[str]
) -> None:
    visit(f"/files/{node.pk}/edit/")
    page.get_by_label("Content", exact=True).fill("family: mine\n")
    save_file(actor=deployer, scope=node.scope, path=node.path, content="family: theirs\n")
    with page.expect_console_message(lambda message: "409" in message.text):
        page.get_by_role("button", name="Save").click()
    assert "409" in complaints.pop()
    expect(page.get_by_role("alert")).to_contain_text("saved version 2 while you were editing")
    expect(page.get_by_role("row", name="removed family: theirs")).to_be_visible()
    expect(page.get_by_label("Content", exact=True)).to_have_value("family: mine\n")
    page.get_by_role("button", name="Overwrite version 2").click()
    expect(page.get_by_text("saved as version 3")).to_be_visible()


def test_the_form_of_a_connector_asks_only_for_what_fits(page: Page, visit: Visit, demo: Pipeline) -> None:
    visit("/connectors/new/")
    role, key = page.get_by_label("Role", exact=True), page.get_by_label("Access key id")
    expect(role).to_be_visible()
    page.get_by_label("Access key", exact=True).check()
    expect(role).to_be_hidden()
    expect(key).to_be_visible()
    page.get_by_label("Slipway credentials").check()
    expect(key).to_be_hidden()
    expect(page.get_by_text("has the AWS permissions of Slipway itself")).to_be_visible()


def test_a_new_connector_is_tested_at_once_and_says_what_to_do(
    page: Page, visit: Visit, demo: Pipeline
) -> None:
    visit("/connectors/new/")
    page.get_by_label("Name", exact=True).fill("Nobody listens")
    page.get_by_label("Access key", exact=True).check()
    page.get_by_label("Access key id").fill("AKIAIOSFODNN7EXAMPLE")
    page.get_by_label("Secret access key (new value)").fill(planted("wonderful-secret-value"))
    nowhere = f"http://127.0.0.1:{free_port()}"
    page.get_by_label("Custom endpoint").fill(nowhere)
    page.get_by_role("button", name="Save and test").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Nobody listens")
    panel = page.get_by_role("region", name="Last test")
    expect(panel.get_by_role("status")).to_have_text("Test failed", timeout=20_000)
    expect(panel).to_contain_text(f"Make sure that Slipway reaches {nowhere}")
    assert Connector.objects.get(identifier="nobody_listens").last_test_ok is False
    assert planted("wonderful-secret-value") not in page.content()


def test_files_are_uploaded_from_the_machine(page: Page, visit: Visit, demo: Pipeline) -> None:
    visit("/files/upload/")
    page.get_by_label("Files", exact=True).set_input_files(
        [{"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"}]
    )
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_text("Uploaded /notes.txt.")).to_be_visible()


def test_a_scaling_policy_begins_with_a_sample_that_is_right(
    page: Page, visit: Visit, demo: Pipeline
) -> None:
    visit("/services/new/")
    page.get_by_role("button", name="Add manifest").click()
    row = page.locator(".manifest").last
    row.get_by_label("Kind").select_option("Scaling policy")
    row.get_by_role("button", name="Insert sample").click()
    expect(row.get_by_role("textbox", name="Text")).to_have_value(
        re.compile("targetTrackingScalingPolicyConfiguration")
    )
    expect(row.get_by_text("Checked as a scaling policy.")).to_be_visible()
    expect(row.get_by_role("button", name="Insert sample")).to_be_hidden()


def test_an_override_is_checked_saved_and_shown_merged(page: Page, visit: Visit, demo: Pipeline) -> None:
    place = Infrastructure.objects.get(identifier="sandbox")
    service = Service.objects.get(identifier="myapp")
    visit(f"/environments/{place.environment_id}/infrastructures/{place.pk}/services/{service.pk}/")
    page.get_by_role("button", name="Add manifest").click()
    row = page.locator(".manifest").last
    row.get_by_role("textbox", name="Text").fill("networkMode: magic\n")
    expect(row.get_by_role("list", name="Problems in the text")).to_contain_text("Line 1, column 1")
    row.get_by_role("textbox", name="Text").fill("memory: '1024'\n")
    expect(row.get_by_text("Valid together with the manifest it overrides.")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text(re.compile("Override of .* saved"))).to_be_visible()
    page.get_by_role("link", name="Manifests").click()
    expect(page.get_by_role("row", name='infrastructure memory: "1024"')).to_contain_text("instead of 512")


def test_what_was_entered_for_a_deleted_resource_can_be_copied(
    page: Page, visit: Visit, demo: Pipeline, complaints: list[str]
) -> None:
    service = Service.objects.get(identifier="myapp")
    visit(f"/services/{service.pk}/edit/")
    page.get_by_label("Name", exact=True).fill("Typed for a while")
    Service.objects.filter(pk=service.pk).delete()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_have_value("Typed for a while")
    assert "404" in complaints.pop()
