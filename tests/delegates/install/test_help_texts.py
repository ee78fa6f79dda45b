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


def read_template(part: str) -> str:
    return render_to_string(f"delegates/help/{part}")


def test_each_action_of_the_policy_is_explained_once_and_in_its_order() -> None:
    explained_actions = re.findall(
        r'<th scope="row"><code>([a-z-]+:[A-Za-z]+)</code>', read_template("_permissions.html")
    )
    assert tuple(explained_actions) == ACTIONS


def test_each_variable_of_a_spec_is_explained() -> None:
    variable_names = {
        variable["name"]
        for request in MATRIX
        for container in write_spec(request).task_definition["containerDefinitions"]
        for variable in [*container["environment"], *container.get("secrets", [])]
    }
    page = read_template("_fields.html")
    assert not [name for name in variable_names if f"<code>{name}</code>" not in page]


def test_the_shared_log_group_is_the_one_that_the_commands_make() -> None:
    assert SHARED_LOG_GROUP in read_template("_log_limits.html")


@pytest.mark.django_db
def test_a_page_has_all_of_them(browse: Callable[[User], Client], viewer: User) -> None:
    page = browse(viewer).get("/delegates/help/").content.decode()
    for part in PARTS:
        assert read_template(part) in page
