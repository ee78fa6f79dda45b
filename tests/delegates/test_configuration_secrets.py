"""Secrets in scripts of configurations: which may be there, and who may write or assign them."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from connectors.models import Connector, Secret
from connectors.operations import create_secret
from connectors.required_access import MissingAccess
from delegates.install.wizard import WizardAnswers
from delegates.models import DelegateConfiguration
from delegates.operations.configurations import (
    apply_configuration,
    create_configuration,
    update_configuration,
)
from delegates.operations.delegates import update_delegate
from delegates.operations.installation import create_delegate
from rbac.models import Scope, User
from tests.fixtures.delegates import make_delegate
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted
from web.http.problems import BadInput

Browse = Callable[[User], Client]
Call = Callable[[User], APIClient]


@pytest.fixture
def secret(account: Scope, admin: User) -> Secret:
    return create_secret(
        actor=admin, scope=account, identifier="token", name="Token", value=planted("-of-it")
    )


@pytest.fixture
def tools(secret: Secret, project: Scope, admin: User) -> DelegateConfiguration:
    script = 'login <+secrets.getValue("account.token")>'
    return create_configuration(actor=admin, scope=project, identifier="tools", name="Tools", script=script)


@pytest.fixture
def editor(project: Scope) -> User:
    """May edit everything in the project, and use no secret of the account."""
    return make_person("editor", "project_admin", project)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo\nlogin <+secrets.getValue('account.token')>", "Line 2"),
        ('login <+secrets.getValue("account.token")', "Line 1"),
        ('login <+secrets.getValue("account.other")>', "No secret account.other in account/default/demo"),
        ("".join(f'<+secrets.getValue("account.token{n}")>' for n in range(11)), "10 secrets"),
    ],
)
def test_a_secret_that_no_delegate_could_get_is_refused(
    tools: DelegateConfiguration, admin: User, script: str, message: str
) -> None:
    with pytest.raises(BadInput, match=message) as error:
        update_configuration(actor=admin, configuration=tools, script=script)
    assert error.value.errors[0]["path"] == "script"


def test_a_secret_of_a_script_is_deleted_neither_by_the_api_nor_by_its_page(
    tools: DelegateConfiguration, secret: Secret, admin: User, call: Call, browse: Browse
) -> None:
    refused = call(admin).delete(f"/api/v1/secrets/{secret.pk}")
    assert (refused.status_code, refused.json()["code"]) == (409, "still_used")
    assert "in use by delegate configuration Tools" in refused.json()["detail"]
    assert browse(admin).post(f"/secrets/{secret.pk}/delete/").status_code == 409
    update_configuration(actor=admin, configuration=tools, script="echo")
    assert call(admin).delete(f"/api/v1/secrets/{secret.pk}").status_code == 204


def test_a_secret_in_a_secret_manager_is_refused_with_the_remedy(
    tools: DelegateConfiguration, admin: User, project: Scope
) -> None:
    connector = Connector.objects.create(scope=project, identifier="aws", name="AWS")
    Secret.objects.create(
        scope=project,
        identifier="db",
        name="Database",
        kind=Secret.Kind.REFERENCE,
        manager="AwsSecretsManager",
        manager_connector=connector,
        reference_path="prod/db",
    )
    with pytest.raises(BadInput, match="Store the value in Slipway"):
        update_configuration(actor=admin, configuration=tools, script='<+secrets.getValue("db")>')


def test_the_primary_configuration_has_no_secrets(secret: Secret, admin: User, call: Call) -> None:
    primary = DelegateConfiguration.objects.get(is_primary=True)
    body = {"script": 'login <+secrets.getValue("token")>'}
    response = call(admin).patch(f"/api/v1/delegate-configurations/{primary.pk}", body, "json")
    assert response.status_code == 400
    assert "Every new delegate gets" in response.json()["errors"][0]["message"]


def test_who_may_not_use_a_secret_cannot_change_a_script_with_it(
    tools: DelegateConfiguration, editor: User, call: Call
) -> None:
    address = f"/api/v1/delegate-configurations/{tools.pk}"
    body = {"script": f"{tools.script}\nenv | rev"}
    response = call(editor).patch(address, body, "json")
    assert (response.status_code, response.json()["errors"][0]["path"]) == (403, "script")
    # What has nothing to do with the script stays possible.
    body = {"script": tools.script, "timeout_seconds": 90}
    assert call(editor).patch(address, body, "json").status_code == 200


def test_who_may_not_use_a_secret_cannot_give_it_to_a_delegate(
    tools: DelegateConfiguration, editor: User
) -> None:
    delegate = make_delegate(tools.scope, "own")
    with pytest.raises(MissingAccess, match="core_secret_access"):
        apply_configuration(actor=editor, configuration=tools, delegates=[delegate])
    with pytest.raises(MissingAccess, match="core_secret_access"):
        update_delegate(actor=editor, delegate=delegate, configuration=tools)
    with pytest.raises(MissingAccess, match="core_secret_access"):
        create_delegate(
            actor=editor, scope=tools.scope, name="new", answers=WizardAnswers(), configuration=tools
        )
    delegate.refresh_from_db()
    assert delegate.configuration is not None
    assert delegate.configuration.is_primary


def test_the_page_of_a_secret_lists_configurations_that_use_it(
    tools: DelegateConfiguration, secret: Secret, admin: User, browse: Browse
) -> None:
    page = browse(admin).get(f"/secrets/{secret.pk}/").content.decode()
    assert f'<a href="/delegates/configurations/{tools.pk}/">delegate configuration Tools</a>' in page
