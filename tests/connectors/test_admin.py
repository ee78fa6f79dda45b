"""The admin site of connectors: looked at by who may, changed by nobody, without any secret value."""

from collections.abc import Callable

import pytest
from django.test import Client

from connectors.models import Connector, FileNode, Secret
from connectors.operations import create_connector, create_secret, save_file
from rbac.models import Scope, User
from tests.secret_watch.marker import planted

VALUE = planted("wJalrXUtnFEMI-K7MDENG")


@pytest.fixture
def things(project: Scope, admin: User) -> dict[str, Secret | Connector | FileNode]:
    secret = create_secret(actor=admin, scope=project, identifier="key", name="Key", value=VALUE)
    spec = {"credentials": "AccessKey", "access_key_id": "AKIAIOSFODNN7EXAMPLE"}
    connector = create_connector(
        actor=admin, scope=project, identifier="aws", name="AWS", spec=spec, secret=secret
    )
    node = save_file(actor=admin, scope=project, path="/a.yaml", content="a: 1\n")
    return {"secret": secret, "connector": connector, "filenode": node}


@pytest.mark.parametrize("model", ["secret", "connector", "filenode"])
def test_lists_and_pages_show_everything_but_secret_values(
    model: str,
    things: dict[str, Secret | Connector | FileNode],
    admin: User,
    browse: Callable[[User], Client],
) -> None:
    client = browse(admin)
    list_page = client.get(f"/admin/connectors/{model}/")
    change_page = client.get(f"/admin/connectors/{model}/{things[model].pk}/change/")
    assert (list_page.status_code, change_page.status_code) == (200, 200)
    assert str(things[model]) in list_page.content.decode()
    assert VALUE not in list_page.content.decode() + change_page.content.decode()
    assert client.get(f"/admin/connectors/{model}/add/").status_code == 403
    assert client.post(f"/admin/connectors/{model}/{things[model].pk}/delete/").status_code == 403
