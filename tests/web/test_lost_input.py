"""What was entered for a resource that somebody deleted meanwhile is shown to be copied."""

from collections.abc import Callable

import pytest
from django.test import Client

from rbac.models import User

pytestmark = pytest.mark.django_db
ENTERED = {
    "csrfmiddlewaretoken": "sent-by-the-form",
    "version": "3",
    "name": "Web <shop>",
    "manifests-TOTAL_FORMS": "1",
    "manifests-0-content": "\nfamily: web\ncpu: '256'",
    "tags": ["a", "b"],
    "description": "",
}


@pytest.mark.parametrize(
    "address", ["/services/0/edit/", "/environments/0/edit/", "/environments/0/services/0/"]
)
def test_a_form_of_a_deleted_resource_shows_what_was_entered(
    address: str, admin: User, browse: Callable[[User], Client]
) -> None:
    reader = browse(admin)
    page = reader.post(address, ENTERED)
    text = page.content.decode()
    assert page.status_code == 404
    assert ">\nWeb &lt;shop&gt;</textarea>" in text
    assert ">\n\nfamily: web\ncpu: &#x27;256&#x27;</textarea>" in text
    assert ">Manifests 1: content</label>" in text
    assert ">\na, b</textarea>" in text
    for left_out in ("sent-by-the-form", "TOTAL", "Version", "Description"):
        assert left_out not in text
    assert "Copy what you entered" not in reader.get(address).content.decode()


@pytest.mark.parametrize("address", ["/secrets/0/rotate/", "/connectors/0/edit/"])
def test_a_form_with_secrets_shows_nothing(
    address: str, admin: User, browse: Callable[[User], Client]
) -> None:
    page = browse(admin).post(address, ENTERED)
    assert (page.status_code, "Web &lt;shop&gt;" in page.content.decode()) == (404, False)
