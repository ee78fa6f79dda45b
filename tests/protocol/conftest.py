"""A scope with a token, and an agent that registered with it."""

import pytest
from django.core.cache import cache

from delegates.models import DelegateToken
from rbac.models import Scope
from tests.delegates.making import make_token
from tests.protocol.agents import Agent, registered


@pytest.fixture(autouse=True)
def _nobody_was_refused() -> None:
    cache.clear()


@pytest.fixture
def token(project: Scope) -> DelegateToken:
    return make_token(project)


@pytest.fixture
def agent(token: DelegateToken) -> Agent:
    return registered(token)
