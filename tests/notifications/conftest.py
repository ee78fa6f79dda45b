"""A receiver, and rules that lead to it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from notifications.events import EventType
from notifications.models import NotificationRule
from notifications.operations import NotificationRuleSpec, create_rule
from rbac.models import Scope, User
from tests.fixtures.people import make_person
from tests.notifications.webhook_receiver import Receiver, listening

Ruled = Callable[..., NotificationRule]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening() as webhook_receiver:
        yield webhook_receiver


@pytest.fixture
def ruled(account: Scope, receiver: Receiver) -> Ruled:
    """Makes a rule that leads to the receiver."""

    def make_rule(
        scope: Scope, *events: EventType, identifier: str = "room", **more: Any
    ) -> NotificationRule:
        ruler = User.objects.filter(username="ruler").first() or make_person(
            "ruler", "account_admin", account
        )
        kind = more.pop("kind", NotificationRule.Kind.WEBHOOK)
        spec = NotificationRuleSpec(
            name="The room", events=tuple(events), url=more.pop("url", receiver.url()), **more
        )
        return create_rule(actor=ruler, scope=scope, identifier=identifier, spec=spec, kind=kind)

    return make_rule
