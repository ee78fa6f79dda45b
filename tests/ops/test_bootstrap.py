"""The first start creates what is missing, prints secrets once, and changes nothing that exists."""

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from ops import bootstrap as bootstrap_module
from rbac.models import ApiKey, AuditEntry, RoleAssignment, Scope, ServiceAccount, User
from rbac.operations.api_keys import get_api_key_by_token, revoke_api_key
from rbac.permissions import PERMISSION_IDENTIFIERS
from rbac.policy import can

pytestmark = pytest.mark.django_db


def run_bootstrap(*arguments: str) -> dict[str, Any]:
    output = io.StringIO()
    call_command("bootstrap", "--json", *arguments, stdout=output)
    result: dict[str, Any] = json.loads(output.getvalue())
    return result


def count_rows() -> list[int]:
    return [model.objects.count() for model in (User, Scope, ServiceAccount, ApiKey, RoleAssignment)]


def test_the_first_start_makes_an_administrator_who_signs_in_and_a_key_that_works() -> None:
    result = run_bootstrap("--email", "mona@example.com")

    person = User.objects.get(username="admin")
    assert person.check_password(result["password"])
    assert person.is_staff
    assert not person.is_superuser
    assert all(can(person, permission, Scope.objects.account()) for permission in PERMISSION_IDENTIFIERS)
    answer = Client().get("/api/v1/me", headers={"Authorization": f"Bearer {result['api_key']}"})
    assert answer.status_code == 200, answer.content
    organization = Scope.objects.get(identifier=result["organization"])
    key = get_api_key_by_token(result["api_key"])
    assert key is not None
    assert can(key.user, "core_pipeline_execute", organization)
    assert not can(key.user, "core_account_edit", Scope.objects.account())


def test_run_again_it_shows_no_secret_and_changes_nothing() -> None:
    first = run_bootstrap()
    before = count_rows()

    again = run_bootstrap()

    assert (again["password"], again["api_key"]) == ("", "")
    assert count_rows() == before
    assert User.objects.get(username="admin").check_password(first["password"])
    assert get_api_key_by_token(first["api_key"]) is not None


def test_lost_secrets_are_replaced_on_request() -> None:
    first = run_bootstrap()

    second = run_bootstrap("--replace-secrets")

    assert User.objects.get(username="admin").check_password(second["password"])
    assert get_api_key_by_token(first["api_key"]) is None
    assert get_api_key_by_token(second["api_key"]) is not None


def test_the_administrator_and_a_new_password_are_in_the_audit_trail() -> None:
    run_bootstrap("--email", "mona@example.com")
    run_bootstrap()
    run_bootstrap("--replace-secrets")
    person = User.objects.get(username="admin")
    entries = AuditEntry.objects.filter(thing_type="rbac.user", thing_id=str(person.pk)).order_by("pk")
    assert [(entry.action, entry.actor_name, entry.after) for entry in entries] == [
        ("user.create", "slipway", {"username": "admin", "email": "mona@example.com"}),
        ("user.password_change", "slipway", None),
    ]


def test_a_secret_that_could_not_be_printed_is_not_stored() -> None:
    class BrokenPipe(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    before = count_rows()
    with pytest.raises(BrokenPipeError):
        call_command("bootstrap", stdout=BrokenPipe())

    assert count_rows() == before


def test_a_person_without_the_role_is_not_made_an_administrator() -> None:
    User.objects.create_user(username="admin", password="of-somebody-else")

    with pytest.raises(CommandError, match="not an active account administrator"):
        run_bootstrap("--replace-secrets")

    assert User.objects.get(username="admin").check_password("of-somebody-else")


def test_an_administrator_whose_name_differs_by_case_only_is_not_added() -> None:
    User.objects.create_user("Admin")
    with pytest.raises(CommandError, match=r"username: The user Admin exists\."):
        run_bootstrap()
    assert not User.objects.filter(username="admin").exists()


def test_a_person_whose_role_has_expired_is_not_an_administrator() -> None:
    run_bootstrap()
    RoleAssignment.objects.filter(user__username="admin").update(expires_at=timezone.now())

    with pytest.raises(CommandError, match="not an active account administrator"):
        run_bootstrap()


def test_a_revoked_key_stays_revoked() -> None:
    run_bootstrap()
    key = ApiKey.objects.get(name=bootstrap_module.API_KEY_NAME)
    revoke_api_key(actor=None, key=key)

    assert run_bootstrap()["api_key"] == ""
    with pytest.raises(CommandError, match="was revoked"):
        run_bootstrap("--replace-secrets")
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_an_identifier_that_is_no_identifier_is_refused_by_name() -> None:
    with pytest.raises(CommandError, match="identifier: Use up to"):
        run_bootstrap("--organization", "Bad Name!")
    assert not User.objects.filter(username="admin").exists()
