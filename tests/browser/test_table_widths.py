"""Tables of main pages fit into their panels, so that no column is clipped, and forms have one width."""

import pytest
from playwright.sync_api import Page

from catalog.models import Environment, Infrastructure, Service
from delegates.models import Delegate
from rbac.models import Role, RoleAssignment, Scope, User
from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser

OVERFLOWS = """tables => tables.filter(table => table.scrollWidth > table.clientWidth)
    .map(table => `${table.getAttribute("aria-label")}: ${table.scrollWidth} in ${table.clientWidth}`)"""


FORMS = (
    "/connectors/new/",
    "/environments/new/",
    "/services/new/",
    "/secrets/new/",
    "/delegates/new/",
    "/freezes/new/",
    "/access/groups/new/",
    "/notifications/new/",
)


def make_admin(deployer: User) -> None:
    admin = Role.objects.get(identifier="account_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=admin, scope=Scope.objects.account())


@pytest.mark.parametrize("width", [1280, 390])
def test_tables_fit_into_their_panels(page: Page, visit: Visit, deployer: User, width: int) -> None:
    make_admin(deployer)
    Delegate.objects.update(
        name="payments-production-eu-west-1", tags=["production", "eu-west-1", "payments"]
    )
    Infrastructure.objects.update(name="Production Ireland", cluster="payments-production-cluster")
    environment = Environment.objects.filter(infrastructures__isnull=False).earliest("pk")
    page.set_viewport_size({"width": width, "height": 900})
    overflows = {}
    lists = ("/delegates/", "/environments/", "/connectors/", "/services/", "/pipelines/", "/access/scopes/")
    for path in (f"/environments/{environment.pk}/", *lists):
        visit(path)
        overflows[path] = page.locator(".table-wrap").evaluate_all(OVERFLOWS)
    assert {path: tables for path, tables in overflows.items() if tables} == {}


def test_forms_have_one_width(page: Page, visit: Visit, deployer: User) -> None:
    make_admin(deployer)
    page.set_viewport_size({"width": 1280, "height": 900})
    widths = {}
    for path in FORMS:
        visit(path)
        form = page.locator("main :is(.form-panel, .wizard)").first
        widths[path] = form.evaluate("form => form.getBoundingClientRect().width")
    assert len(set(widths.values())) == 1, widths


def test_a_name_without_a_break_widens_no_page(page: Page, visit: Visit, deployer: User) -> None:
    make_admin(deployer)
    name = "W" * 120
    Environment.objects.update(name=name)
    service = Service.objects.filter(identifier="myapp").get()
    Service.objects.filter(pk=service.pk).update(name=name)
    addresses = ("/services/", f"/services/{service.pk}/", "/instances/", "/inventory/")
    widths = {}
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for path in addresses:
            visit(path)
            widths[width, path] = page.evaluate("document.documentElement.scrollWidth")
    assert {place: wide for place, wide in widths.items() if wide > place[0]} == {}
