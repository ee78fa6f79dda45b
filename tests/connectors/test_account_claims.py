"""What a connector shares with others of the account that it names; a claim slows nobody else."""

from datetime import UTC, datetime, timedelta

import pytest

from aws.errors import Throttled
from connectors.account_claims import list_isolated_connectors, parse_account
from connectors.models import Connector
from deployments.engine.service_waits import get_rate_limit_key
from deployments.journal import rate_limits
from deployments.models import StageExecution
from rbac.models import Scope

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ENDPOINT = {"endpoint_url": "https://proxy.example"}
DELEGATE = {"connect_through": "Delegate", "credentials": "Delegate"}


def create_connector(scope: Scope, **spec: str) -> Connector:
    name = f"aws{Connector.objects.count()}"
    return Connector.objects.create(scope=scope, identifier=name, name=name, spec=spec)


def get_key(connector: Connector, account: str = "123456789012") -> str:
    return get_rate_limit_key(StageExecution(account=account, region="eu-west-1", connector=connector))


def test_connectors_of_one_account_that_slipway_reaches_itself_share_its_quota(project: Scope) -> None:
    keys = {get_key(create_connector(scope)) for scope in (project, Scope.objects.account())}
    assert keys == {"123456789012/eu-west-1"}


def test_an_account_that_delegates_report_is_shared_in_the_scope_of_the_connectors(project: Scope) -> None:
    first, second = (get_key(create_connector(project, **DELEGATE)) for _ in range(2))
    assert first == second
    above = get_key(create_connector(Scope.objects.account(), **DELEGATE))
    assert len({first, above, get_key(create_connector(project))}) == 3


def test_a_connector_with_an_endpoint_of_its_own_shares_nothing(project: Scope) -> None:
    connectors = [create_connector(project, **ENDPOINT, **more) for more in ({}, {}, DELEGATE)]
    moved = create_connector(project, **ENDPOINT)
    before = get_key(moved)
    moved.spec = {"endpoint_url": "https://other.example"}
    shared = {get_key(connector) for connector in (create_connector(project), create_connector(project))}
    keys = {*map(get_key, connectors), before, get_key(moved), *shared}
    assert len(keys) == 6
    assert {parse_account(key.rpartition("/")[0]) for key in keys} == {"123456789012"}
    assert list_isolated_connectors(Connector.objects.values_list("pk", flat=True)) == {
        connector.pk for connector in (*connectors, moved)
    }


@pytest.mark.parametrize("spec", [ENDPOINT, DELEGATE])
def test_a_throttled_or_greedy_claimant_slows_nobody_else(project: Scope, spec: dict[str, str]) -> None:
    rate_limits.reset_buckets()
    owner, claimant = get_key(create_connector(project)), get_key(create_connector(project, **spec))
    while rate_limits.take_tokens(claimant, rate_limits.SERVICE_READS, 100, NOW):
        pass
    error = Throttled("ThrottlingException", "Rate exceeded", "ecs", "DescribeServices")
    rate_limits.record_throttling(claimant, error, NOW)
    soon = NOW + timedelta(milliseconds=1)
    rate_limits.take_token(owner, "ecs", "DescribeServices", holder="a deployment", now=soon)
    with pytest.raises(rate_limits.RateLimited):
        rate_limits.take_token(claimant, "ecs", "DescribeServices", holder="a claim", now=soon)
