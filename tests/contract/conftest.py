"""The endpoint that the contract is checked on: a sandbox, or what SLIPWAY_CONTRACT_ENDPOINT names."""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.contract.balancer import Balancer, create_balancer
from tests.contract.endpoint import Aws, Endpoint

ELSEWHERE = Endpoint.from_environment(os.environ)


class UnsourcedTest(pytest.UsageError):
    """A rule of AWS that nobody can look up."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse rules without a source; leave out what another endpoint cannot be asked."""
    for item in items:
        if "contract" not in item.path.parts:
            continue
        if item.get_closest_marker("source") is None:
            raise UnsourcedTest(f"{item.nodeid} does not say where AWS says so: add @pytest.mark.source(…)")
        if ELSEWHERE and (needs := item.get_closest_marker("needs_sandbox")):
            item.add_marker(pytest.mark.skip(reason=f"needs the sandbox: {needs.args[0]}"))


@pytest.fixture
def aws(request: pytest.FixtureRequest) -> Aws:
    """An account with nothing of ours in it."""
    account = Aws(ELSEWHERE) if ELSEWHERE else Aws.pretend(request.getfixturevalue("sandbox_process"))
    account.empty()
    return account


@pytest.fixture
def balancer(aws: Aws) -> Iterator[Balancer]:
    if not aws.endpoint.vpc:
        pytest.skip("needs SLIPWAY_CONTRACT_VPC to make target groups in")
    with ExitStack() as afterwards:
        yield create_balancer(aws, afterwards)
        if aws.of is not None:
            # The sandbox is planted anew before the next test.
            afterwards.pop_all()
            return
        aws.empty()
