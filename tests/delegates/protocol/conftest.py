"""A scope with a token, and an agent that registered with it."""

import pytest
from django.core.cache import cache

from delegates.models import DelegateToken
from rbac.models import Scope
from tests.delegates.protocol.fake_agents import Agent, register_agent
from tests.fixtures.delegates import make_token


@pytest.fixture(autouse=True)
def _clear_refusals() -> None:
    cache.clear()


@pytest.fixture
def token(project: Scope) -> DelegateToken:
    return make_token(project)


@pytest.fixture
def agent(token: DelegateToken) -> Agent:
    return register_agent(token)
