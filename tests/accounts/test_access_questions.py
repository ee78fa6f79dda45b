"""Questions about access: "Can … do …?" with its reason, and "Who can …?"."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from catalog.models import Environment
from pipelines.models import Pipeline
from rbac.models import ResourceGroup, Role, RoleAssignment, Scope, User, UserGroup
from rbac.operations import create_service_account
from tests.rbac.people import grant, organization, project, user

pytestmark = pytest.mark.django_db


@pytest.fixture
def demo(account: Scope) -> Scope:
    return project()


@pytest.fixture
def production(demo: Scope) -> Environment:
    return Environment.objects.create(scope=demo, identifier="prod", name="Production")


def make_group(scope: Scope, *members: User, role: str = "", at: Scope | None = None) -> UserGroup:
    group = UserGroup.objects.create(scope=scope, identifier="releasers", name="release-managers")
    group.users.add(*members)
    if role:
        role_row = Role.objects.get(identifier=role, scope=None)
        RoleAssignment.objects.create(group=group, role=role_row, scope=at or scope)
    return group


def read_content(reader: User, name: str, status: int = 200, **params: str) -> str:
    client = Client()
    client.force_login(reader)
    response = client.get(reverse(name), params)
    assert response.status_code == status
    return response.content.decode()


def extract_text(content: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", content.split('<main class="main"', 1)[1])).strip()


def ask(reader: User, **params: str) -> str:
    """Return the text of the answer to "Can … do …?"."""
    content = read_content(reader, "effective-access", **params)
    answer = content.split("access-answer", 1)[1].split("</section>", 1)[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer)).replace(" ,", ",")


def list_holders(reader: User, **params: str) -> dict[str, str]:
    """Return the reason of each user of the page "Who can …?"."""
    content = read_content(reader, "who-can", **params)
    rows = re.findall(
        r'<tr>\s*<th scope="row">(.*?)</th>\s*<td class="because">(.*?)</td>', content, re.DOTALL
    )
    return {extract_cell(name).split(" ")[0]: extract_cell(reason) for name, reason in rows}


def extract_cell(cell: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", cell)).strip()


def test_a_yes_names_the_group_the_role_the_scope_and_the_date(demo: Scope, production: Environment) -> None:
    reader, mona = user("reader", "account_admin"), user("mona")
    group = make_group(organization("default"), mona, role="pipeline_executor")
    RoleAssignment.objects.filter(group=group).update(created_at="2026-03-02T10:00:00Z")
    where = {"scope": demo.path, "kind": "environment", "identifier": "prod"}
    answer = ask(reader, who="mona", action="deploy", **where)
    assert "Yes mona can deploy to environment Production in project Demo, because" in answer
    assert (
        "group release-managers has role Pipeline Executor in organization Default since 2026-03-02" in answer
    )
    content = read_content(reader, "effective-access", who="mona", action="deploy", **where)
    assignment = RoleAssignment.objects.get(group=group)
    assert f'href="/access/groups/{group.pk}/#assignment-{assignment.pk}"' in content
    assert f'id="assignment-{assignment.pk}"' in read_group(reader, group)


def read_group(reader: User, group: UserGroup) -> str:
    client = Client()
    client.force_login(reader)
    return client.get(reverse("user-group", args=[group.pk])).content.decode()


def test_a_no_names_what_is_missing_and_leads_to_the_assignment_of_a_role(demo: Scope) -> None:
    reader, mona = user("reader", "account_admin"), user("mona", "viewer", demo)
    params = {"who": "mona", "action": "core_pipeline_execute", "scope": demo.path}
    answer = ask(reader, **params)
    assert "No mona cannot run pipelines in project Demo" in answer
    assert "Granted by Account Admin, Organization Admin, Project Admin, Pipeline Executor." in answer
    content = read_content(reader, "effective-access", **params)
    assert reverse("assign-role-to-person", args=[mona.pk]) in content
    assert "because" not in ask(reader, **params)


def test_groups_and_service_accounts_can_be_asked_about(demo: Scope) -> None:
    reader = user("reader", "account_admin")
    make_group(demo, role="viewer")
    account = create_service_account(actor=reader, scope=demo, name="CI")
    grant(account.user, "pipeline_executor", demo)
    group_answer = ask(reader, who="group:account/default/demo/releasers", action="core_pipeline_view")
    assert "Yes Group release-managers can view pipelines in project Demo" in group_answer
    params = {"who": account.user.username, "action": "core_pipeline_execute", "scope": demo.path}
    assert f"Yes {account.user.username} can run pipelines" in ask(reader, **params)
    content = read_content(reader, "effective-access", **params)
    assert f'href="/access/service-accounts/{account.pk}/#assignment-' in content


def test_several_grounds_of_one_answer_say_what_each_allows(demo: Scope) -> None:
    mona = user("mona", "account_admin")
    runner = Role.objects.create(scope=demo, identifier="runner", name="Runner")
    runner.set_permissions(["core_pipeline_execute", "core_service_access"])
    target = Role.objects.create(scope=demo, identifier="target", name="Target")
    target.set_permissions(["core_environment_access"])
    other = user("other")
    for role in (runner, target):
        RoleAssignment.objects.create(user=other, role=role, scope=demo)
    answer = ask(mona, who="other", action="deploy", scope=demo.path)
    assert "has role Runner in project Demo" in answer
    assert "(to run pipelines and use services)" in answer
    assert "(to use environments)" in answer


def test_a_deployment_to_an_environment_counts_single_pipelines(demo: Scope, production: Environment) -> None:
    Pipeline.objects.create(scope=demo, identifier="web", name="Web", yaml="")
    reader, mona = user("reader", "account_admin"), user("mona")
    narrow = ResourceGroup.objects.create(scope=demo, identifier="web", name="Web in production")
    for resource, identifier in (("pipeline", "web"), ("environment", "prod"), ("service", "web")):
        narrow.entries.create(resource=resource, identifier=identifier)
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.create(user=mona, role=role, scope=demo, resource_group=narrow)
    Environment.objects.create(scope=demo, identifier="other", name="Other")
    where = {"who": "mona", "scope": demo.path, "kind": "environment"}
    assert "Yes mona can deploy" in ask(reader, action="deploy", identifier="prod", **where)
    assert "No mona cannot deploy" in ask(reader, action="deploy", identifier="other", **where)


def test_an_action_for_another_type_of_resource_is_refused(demo: Scope, production: Environment) -> None:
    reader = user("reader", "account_admin")
    where = {"scope": demo.path, "kind": "environment", "identifier": "prod"}
    content = read_content(reader, "effective-access", 400, action="core_secret_view", **where)
    assert "This action is for another type of resource." in content


def test_who_can_deploy_lists_people_with_their_reason(demo: Scope, production: Environment) -> None:
    reader, mona, ravi = user("reader", "account_admin"), user("mona"), user("ravi", "viewer", demo)
    user("gone", "pipeline_executor", demo, expires_at=timezone.now() - timedelta(days=1))
    disabled = user("disabled", "pipeline_executor", demo)
    User.objects.filter(pk=disabled.pk).update(is_active=False)
    user("elsewhere", "pipeline_executor", project("other/away"))
    make_group(organization("default"), mona, ravi, role="pipeline_executor", at=demo)
    where = {"scope": demo.path, "kind": "environment", "identifier": "prod"}
    holders = list_holders(reader, **where)
    assert sorted(holders) == ["mona", "ravi", "reader"]
    assert holders["mona"].startswith("group release-managers has role Pipeline Executor in project Demo")
    assert holders["reader"].startswith("has role Account Admin in the account")
    content = read_content(reader, "who-can", **where)
    assert "Who can deploy to environment Production in project Demo?" in extract_text(content)


def test_who_can_hides_people_out_of_sight_and_says_so(demo: Scope) -> None:
    user("boss", "account_admin")
    viewer, executor = user("vera", "viewer", demo), user("emil", "pipeline_executor", demo)
    assert sorted(list_holders(viewer, action="core_pipeline_view", scope=demo.path)) == ["emil", "vera"]
    text = extract_text(read_content(viewer, "who-can", action="core_pipeline_view", scope=demo.path))
    assert "People whose role belongs to a scope that you cannot view are not listed." in text
    text = extract_text(read_content(executor, "who-can", action="core_pipeline_view", scope=demo.path))
    assert "You can" in text
    assert "vera" not in text


def test_the_environment_leads_to_who_can_deploy(demo: Scope, production: Environment) -> None:
    reader = user("reader", "account_admin")
    client = Client()
    client.force_login(reader)
    content = client.get(reverse("environment", args=[production.pk])).content.decode()
    address = re.search(r'href="([^"]+)">Who can deploy</a>', content)
    assert address is not None
    response = client.get(address[1].replace("&amp;", "&"))
    assert "Who can deploy to environment Production" in response.content.decode()


def test_the_list_of_people_asks_the_question(demo: Scope) -> None:
    content = read_content(user("reader", "account_admin"), "people")
    assert 'action="/access/effective/"' in content
    assert 'formaction="/access/who/"' in content
    assert '<option value="core_pipeline_execute">Run pipelines</option>' in content
    assert content.index("Check access") < content.index('aria-label="People of this scope"')


def test_who_can_asks_the_database_as_often_for_many(demo: Scope) -> None:
    reader = user("reader", "account_admin")
    client = Client()
    client.force_login(reader)
    counts = []
    for size in (2, 20):
        for number in range(size):
            person = user(f"person-{size}-{number}", "pipeline_executor", demo)
            group = UserGroup.objects.create(scope=demo, identifier=f"g{size}-{number}", name="G")
            group.users.add(person)
            role = Role.objects.get(identifier="viewer", scope=None)
            RoleAssignment.objects.create(group=group, role=role, scope=demo)
        address = reverse("who-can") + f"?action=core_pipeline_view&scope={demo.path}"
        client.get(address)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(address).status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]
