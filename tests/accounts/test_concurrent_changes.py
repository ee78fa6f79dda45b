"""Changes of groups, service accounts and roles by two people at the same time: none is lost."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from pytest_django import Settings
from rest_framework.test import APIClient

from rbac.models import Scope, ServiceAccount, User, UserGroup
from rbac.operations import create_user_group, update_user_group
from rbac.operations.resource_groups import create_resource_group
from rbac.operations.roles import create_role
from rbac.operations.service_accounts import create_service_account, update_service_account
from tests.fixtures.interleaving import act_after

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]
Browse = Callable[[User], Client]


@pytest.fixture
def ops(project: Scope, settings: Settings) -> UserGroup:
    settings.OIDC_ISSUER, settings.OIDC_GROUPS_CLAIM = "https://idp.example", "groups"
    return create_user_group(actor=None, scope=project, name="Ops")


def link(group: UserGroup) -> None:
    update_user_group(actor=None, group=UserGroup.objects.get(pk=group.pk), external_name="idp-ops")


def test_a_new_name_by_the_api_keeps_a_link_that_somebody_makes_meanwhile(
    admin: User, ops: UserGroup, call: Call
) -> None:
    with act_after('FROM "rbac_usergroup"', lambda: link(ops)):
        answer = call(admin).patch(f"/api/v1/user-groups/{ops.pk}", {"name": "Operators"}, format="json")
    assert answer.status_code == 200
    ops.refresh_from_db()
    assert (ops.name, ops.external_name) == ("Operators", "idp-ops")


def test_a_new_name_on_the_page_is_shown_beside_a_link_that_somebody_made_after_it_was_opened(
    admin: User, ops: UserGroup, browse: Browse
) -> None:
    browser, url = browse(admin), reverse("edit-user-group", args=[ops.pk])
    opened = browser.get(url).context["form"].initial
    link(ops)
    refused = browser.post(url, {**opened, "name": "Operators"})
    assert refused.status_code == 409
    assert "-external_name: idp-ops" in refused.context["diff"].unified
    ops.refresh_from_db()
    assert (ops.name, ops.external_name) == ("Ops", "idp-ops")

    again = {**refused.context["form"].initial, "external_name": "idp-ops"}
    assert browser.post(url, again).status_code == 302
    ops.refresh_from_db()
    assert (ops.name, ops.external_name) == ("Operators", "idp-ops")


def test_a_new_description_by_the_api_keeps_a_name_that_somebody_gives_meanwhile(
    admin: User, project: Scope, call: Call
) -> None:
    account = create_service_account(actor=None, scope=project, name="Robot")

    def rename() -> None:
        update_service_account(actor=None, account=ServiceAccount.objects.get(pk=account.pk), name="CI")

    with act_after('FROM "rbac_serviceaccount"', rename):
        answer = call(admin).patch(
            f"/api/v1/service-accounts/{account.pk}", {"description": "Builds"}, format="json"
        )
    assert (answer.status_code, answer.json()["name"]) == (200, "CI")
    account.refresh_from_db()
    assert (account.name, account.description) == ("CI", "Builds")


@pytest.mark.parametrize("kind", ["roles", "resource-groups"])
def test_what_is_deleted_is_locked_before_its_version_is_compared(
    admin: User, project: Scope, call: Call, kind: str
) -> None:
    if kind == "roles":
        row = create_role(actor=None, scope=project, identifier="ops", name="Ops", permissions=[])
    else:
        row = create_resource_group(actor=None, scope=project, name="Web", entries=[])
    with CaptureQueriesContext(connection) as queries:
        answer = call(admin).delete(f"/api/v1/{kind}/{row.pk}", headers={"If-Match": '"1"'})
    assert answer.status_code == 204
    statements = [query["sql"] for query in queries]
    (read, *_) = (at for at, sql in enumerate(statements) if f'FROM "{row._meta.db_table}" ' in sql)
    # On SQLite, the transaction is the lock.
    begun, ended = (
        sum(sql.startswith(word) for sql in statements[:read]) for word in ("SAVEPOINT", "RELEASE SAVEPOINT")
    )
    assert begun > ended
    assert "FOR UPDATE" in statements[read] or not connection.features.has_select_for_update
