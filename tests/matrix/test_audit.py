"""Every address that changes something leaves an entry: who, what, where and by which request."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import connection, transaction
from django.urls import reverse

from rbac.models import AuditEntry
from tests.api.requests import Ask
from tests.api.required_access import ADMIN
from tests.api.rows import ROWS
from tests.invalid_input.form_discovery import Page
from tests.matrix.conftest import Stage
from tests.matrix.principals import address_of
from tests.routes import newest
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
ASKS = [(name, ask) for name, row in ROWS.items() for ask in row.asks if ask.method != "get"]
WRITE = re.compile(r'^\s*(?:INSERT (?:OR IGNORE )?INTO|UPDATE|DELETE FROM) "?(\w+)"?', re.IGNORECASE)
OURS = (
    "rbac_",
    "connectors_",
    "notifications_",
    "delegates_",
    "deployments_",
    "instances_",
    "mfa_",
    "account_",
    "socialaccount_",
)
# A question and its answer change nothing of what was asked about.
QUESTIONS = {"deployments_previewrequest", "delegates_lookuprequest", "delegates_delegatetask"}
CHANGING_NOTHING = {"approval.check", "delegatetoken.reveal", "user.sign_out"}
REQUEST = "audit-request-1"
SECRETS = (planted("a good secret"), planted("wonderful-secret-value"))


@dataclass(frozen=True)
class Told:
    """The status, changed tables and audit entries of one request."""

    status: int
    written: frozenset[str]
    entries: tuple[AuditEntry, ...]


class Watch:
    """Notes which tables statements really changed: an UPDATE that finds no row changes nothing."""

    def __init__(self) -> None:
        self.tables: set[str] = set()

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        match = WRITE.match(sql)
        # An INSERT that returns a key has no count yet.
        has_changed = sql.startswith("INSERT") or context["cursor"].rowcount
        if match and has_changed and match[1].startswith(OURS):
            self.tables.add(match[1])
        return result


def record_request(stage: Stage, method: str, address: str, body: Any, **options: Any) -> Told:
    """Send a request as an administrator, record its writes, and roll them back."""
    watch = Watch()
    with transaction.atomic():
        with connection.execute_wrapper(watch):
            asking = getattr(stage.browsers[ADMIN], method)
            response = asking(address, body, HTTP_X_REQUEST_ID=REQUEST, **options)
        entries = tuple(AuditEntry.objects.filter(request_id=REQUEST).order_by("pk"))
        transaction.set_rollback(True)
    changed_tables = frozenset(watch.tables) - QUESTIONS - {"rbac_auditentry"}
    return Told(response.status_code, changed_tables, entries)


@pytest.mark.parametrize(
    ("name", "ask"),
    [pytest.param(name, ask, id=f"{name}-{ask.method}{ask.query}") for name, ask in ASKS],
)
def test_who_changes_something_is_in_the_audit_trail(name: str, ask: Ask, stage: Stage) -> None:
    address = reverse(name, kwargs=ROWS[name].kwargs(stage.world)) + ask.query
    options = {} if ask.is_form else {"content_type": "application/json"}
    outcome = record_request(stage, ask.method, address, ask.body(stage.world), **options)
    check(outcome, stage, "api" if name.startswith("api-") else "page")


@pytest.mark.parametrize("label", sorted(model._meta.label_lower for model in admin.site._registry))
@pytest.mark.parametrize("page", ["change", "delete"])
def test_who_changes_something_in_the_administration_is_too(label: str, page: str, stage: Stage) -> None:
    row = newest(apps.get_model(label))
    assert row is not None
    address = reverse(f"admin:{label.replace('.', '_')}_{page}", args=[row.pk])
    shown = Page(address, stage.browsers[ADMIN].send_and_undo("get", address).getvalue().decode())
    for form in shown.forms:
        if form.action != address or form.method != "post":
            continue
        changes = {name: "Changed" for name in form.fields if name in ("name", "first_name", "description")}
        check(record_request(stage, "post", address, form.fields | changes), stage, "admin")


def check(outcome: Told, stage: Stage, source: str) -> None:
    """Compare the written tables with the audit entries."""
    if outcome.written and outcome.status < 400:
        assert outcome.entries, f"changes {sorted(outcome.written)} and says nothing"
    for entry in outcome.entries:
        assert entry.actor == stage.people[ADMIN]
        assert entry.actor_name == stage.people[ADMIN].username
        assert entry.address == address_of(stage.people[ADMIN])
        assert entry.source == source
        assert (entry.thing_type, entry.thing_id, entry.thing_name) > ("", "", "")
        says_what = entry.before is not None or entry.after is not None or entry.action in CHANGING_NOTHING
        assert says_what, f"{entry.action} does not say what changed"
        assert not [secret for secret in SECRETS if secret in f"{entry.before} {entry.after}"]
