"""The texts beside the files say what the files say."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.template.loader import render_to_string
from django.test import Client

from delegates.install import write_spec
from delegates.install.documents import ACTIONS
from delegates.install.plan import SHARED_LOG_GROUP
from rbac.models import User
from tests.delegates.install.spec_variants import MATRIX

FOLDER = Path(__file__).parents[3] / "templates" / "delegates" / "help"
PARTS = sorted(path.name for path in FOLDER.glob("_*.html"))


def text(part: str) -> str:
    return render_to_string(f"delegates/help/{part}")


def test_each_action_of_the_policy_is_explained_once_and_in_its_order() -> None:
    told = re.findall(r'<th scope="row"><code>([a-z-]+:[A-Za-z]+)</code>', text("_permissions.html"))
    assert tuple(told) == ACTIONS


def test_each_variable_of_a_spec_is_explained() -> None:
    named = {
        one["name"]
        for request in MATRIX
        for container in write_spec(request).task_definition["containerDefinitions"]
        for one in [*container["environment"], *container.get("secrets", [])]
    }
    told = text("_fields.html")
    assert not [name for name in named if f"<code>{name}</code>" not in told]


def test_the_shared_log_group_is_the_one_that_the_commands_make() -> None:
    assert SHARED_LOG_GROUP in text("_log_limits.html")


@pytest.mark.django_db
def test_a_page_has_all_of_them(browse: Callable[[User], Client], viewer: User) -> None:
    page = browse(viewer).get("/delegates/help/").content.decode()
    for part in PARTS:
        assert text(part) in page
