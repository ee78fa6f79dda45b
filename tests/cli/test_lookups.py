"""Names that several scopes use: `--scope` chooses one of them, also above a project."""

from collections.abc import Iterator

import pytest
from pytest_django.live_server_helper import LiveServer

from cli.client import ApiClient
from cli.commands.delegates import find_delegate
from cli.credentials import SignIn
from cli.errors import CliError, ExitCode
from cli.lookups import find_resource
from connectors.models import Connector
from rbac.models import Scope, User
from rbac.operations.api_keys import create_api_key
from tests.fixtures.delegates import make_delegate

pytestmark = pytest.mark.django_db(transaction=True)
PLACES = {"": "account", "default": "account/default", "default/demo": "account/default/demo"}


@pytest.fixture
def client(project: Scope, admin: User, live_server: LiveServer) -> Iterator[ApiClient]:
    _, key = create_api_key(actor=admin, user=admin, name="test")
    api_client = ApiClient(SignIn(live_server.url, key))
    yield api_client
    api_client._http.close()


def test_a_connector_is_found_in_exactly_the_named_scope(client: ApiClient) -> None:
    rows = {
        place: Connector.objects.create(
            scope=Scope.objects.get(path=path), identifier="aws", name="AWS", spec={}
        )
        for place, path in PLACES.items()
    }
    for place, connector in rows.items():
        assert find_resource(client, "connectors", "aws", place or "account")["id"] == connector.pk
    with pytest.raises(CliError, match="in several scopes: default/demo, default, account") as error:
        find_resource(client, "connectors", "aws", "")
    assert error.value.code is ExitCode.USAGE


def test_a_scope_stands_for_those_below_it_without_one_of_its_own(client: ApiClient) -> None:
    scope = Scope.objects.get(path="account/default/demo")
    connector = Connector.objects.create(scope=scope, identifier="aws", name="AWS", spec={})
    for place in ("", "account", "default", "default/demo"):
        assert find_resource(client, "connectors", "aws", place)["id"] == connector.pk


def test_a_delegate_is_found_in_exactly_the_named_scope(client: ApiClient) -> None:
    rows = {place: make_delegate(Scope.objects.get(path=path), "west") for place, path in PLACES.items()}
    for place, delegate in rows.items():
        assert find_delegate(client, "west", place or "account")["id"] == delegate.pk
    with pytest.raises(CliError, match="named west") as error:
        find_delegate(client, "west", "")
    assert error.value.code is ExitCode.USAGE
