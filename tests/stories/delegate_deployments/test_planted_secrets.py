"""After deployments of every kind no planted secret lies in database, broker, logs or an agent's files."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from django.test import Client

from connectors.models import Connector
from connectors.operations import create_secret, update_connector
from delegates.models import DelegateInstance, DelegateToken
from deployments.execution.operations import roll_back_execution
from deployments.models import Execution
from rbac.models import User
from rbac.operations.api_keys import create_api_key
from tests.fixtures.agents import Manager
from tests.fixtures.processes import wait_until
from tests.secrecy.planted_secrets import Planted, Search, collect_broker_commands
from tests.secret_watch.marker import planted
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(600)]

KEY = planted("/wJalrXUtnFEMI+K7MDENGbPxRfiCYEXAMPLE")
OF_AGENT = planted("of-the-delegate")
PASSWORD = planted("a planted pass phrase, 4711")


@pytest.fixture
def admin(work: Work) -> User:
    user = User.objects.get(username="admin")
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.fixture
def search(admin: User) -> Search:
    return Search([Planted("the secret", KEY), Planted("the agent's key", OF_AGENT)])


@pytest.fixture
def recorded(manager: Manager, admin: User, search: Search) -> Iterator[httpx.Client]:
    """A browser that is signed in; every answer that it gets is searched."""

    def search_response(answer: httpx.Response) -> None:
        answer.read()
        search.search_content(f"answer {answer.request.method} {answer.url.path}", answer.content)
        search.search_content("headers", str(answer.headers))

    session = Client()
    session.force_login(admin)
    cookie = session.cookies[settings.SESSION_COOKIE_NAME].value
    with httpx.Client(
        base_url=manager.url,
        cookies={settings.SESSION_COOKIE_NAME: cookie},
        event_hooks={"response": [search_response]},
    ) as client:
        yield client


def through_delegate(admin: User, work: Work) -> Connector:
    """The demo's connector goes through a delegate, which is lent a key that is planted."""
    connector = Connector.objects.get(identifier="sandbox_aws")
    secret = create_secret(
        actor=admin, scope=connector.scope, identifier="planted", name="Planted", value=KEY
    )
    spec = {
        "credentials": "AccessKey",
        "access_key_id": "AKIASANDBOXEXAMPLE00",
        "connect_through": "Delegate",
        "delegate_selectors": ["prod"],
        "endpoint_url": work.aws.url,
    }
    return update_connector(actor=admin, connector=connector, spec=spec, secret=secret)


def load_pages(client: httpx.Client, executions: list[Execution], connector: Connector) -> None:
    for path in ("", "pipelines/", "connectors/", "secrets/", "files/", "delegates/", "delegates/tasks/"):
        client.get(f"/{path}", follow_redirects=True)
    for path in ("secrets", "connectors", "audit-trail", "delegates", "executions", "delegate-tasks"):
        client.get(f"/api/v1/{path}")
    client.get(f"/connectors/{connector.pk}/")
    client.get(f"/secrets/{connector.secret_id}/")
    for execution in executions:
        client.get(f"/deployments/{execution.pk}/")
        for part in ("", "/log?download=raw", "/calls", "/events", "/outputs"):
            client.get(f"/api/v1/executions/{execution.pk}{part}")


def test_no_planted_secret_is_left_anywhere(
    work: Work,
    manager: Manager,
    start: StartDying,
    live_broker: str,
    admin: User,
    search: Search,
    recorded: httpx.Client,
    tmp_path: Path,
) -> None:
    connector = through_delegate(admin, work)
    with collect_broker_commands(live_broker) as commands:
        agent = start("prod-eu")
        executions = [
            work.run("1.27"),
            work.run("1.27", "canary_demo"),
            work.run("1.27", "blue_green_demo"),
            work.run("done", "run_task_demo"),
        ]
        executions = [work.until_over(execution) for execution in executions]
        failed = work.until_over(work.run("crash"))
        roll_back_execution(actor=work.deployer, execution=executions[1])
        recorded.post(f"/api/v1/connectors/{connector.pk}/test")
        load_pages(recorded, [*executions, failed], connector)
        _, key = create_api_key(actor=admin, user=admin, name="planted")
        httpx.get(f"{manager.url}/api/v1/secrets", headers={"x-api-key": key}).raise_for_status()
        httpx.get(f"{manager.url}/api/v1/secrets", headers={"x-api-key": f"{key}x"})
        agent.end(within=20)
        wait_until(lambda: not DelegateInstance.objects.filter(connection="WEBSOCKET").exists(), "its leave")
    assert {execution.outcome for execution in executions} == {"COMPLETED"}
    assert failed.status == "FAILED"
    # What only one holder may know: its answers are not searched for it, all else is.
    token = DelegateToken.objects.get(name="agents").value
    search = Search(
        [*search.planted, Planted("token", token), Planted("API key", key), Planted("password", PASSWORD)],
        findings=search.findings,
        searched_bytes=search.searched_bytes,
    )
    search.search_content("messages", b"\n".join(commands))
    search.search_database()
    search.search_broker(live_broker)
    search.search_files(tmp_path)
    for part in (manager.web, manager.worker):
        search.search_content(f"log of {part.name}", part.log.read_bytes())
    assert search.findings == []
    assert {"answer", "messages", "database", "file"} <= search.searched_bytes.keys()
    assert search.searched_bytes["messages"] > 10_000
