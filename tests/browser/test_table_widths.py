"""Tables of main pages fit into their panels at 1280 px, so that no column is clipped."""

import pytest
from playwright.sync_api import Page

from catalog.models import Environment, Infrastructure
from delegates.models import Delegate
from rbac.models import Role, RoleAssignment, Scope, User
from tests.browser.conftest import Visit

pytestmark = pytest.mark.browser

OVERFLOWS = """tables => tables.filter(table => table.scrollWidth > table.clientWidth)
    .map(table => `${table.getAttribute("aria-label")}: ${table.scrollWidth} in ${table.clientWidth}`)"""


def test_tables_fit_into_their_panels(page: Page, visit: Visit, deployer: User) -> None:
    admin = Role.objects.get(identifier="account_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=admin, scope=Scope.objects.account())
    Delegate.objects.update(
        name="payments-production-eu-west-1", tags=["production", "eu-west-1", "payments"]
    )
    Infrastructure.objects.update(name="Production Ireland", cluster="payments-production-cluster")
    environment = Environment.objects.filter(infrastructures__isnull=False).earliest("pk")
    page.set_viewport_size({"width": 1280, "height": 900})
    overflows = {}
    lists = ("/delegates/", "/environments/", "/connectors/", "/services/", "/pipelines/")
    for path in (f"/environments/{environment.pk}/", *lists):
        visit(path)
        overflows[path] = page.locator(".table-wrap").evaluate_all(OVERFLOWS)
    assert {path: tables for path, tables in overflows.items() if tables} == {}
