"""Rows that are deleted or cleared once they are older than their rule says."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone
from pytest_django import Settings

from web.retention import RetentionRule, prune_rows

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def sessions(*ages: int) -> None:
    """Store sessions that expired so many days ago."""
    for number, days in enumerate(ages):
        Session.objects.create(session_key=f"key-{number}", expire_date=NOW - timedelta(days=days))


def keys() -> set[str]:
    return set(Session.objects.values_list("session_key", flat=True))


def test_rows_older_than_their_age_are_deleted_in_batches() -> None:
    sessions(0, 3, 1, 4, 5)
    rule = RetentionRule("Sessions", Session.objects.all(), "expire_date", timedelta(days=2), batch_size=2)
    assert rule.prune(NOW) == 3
    assert keys() == {"key-0", "key-2"}
    assert rule.prune(NOW) == 0


def test_a_rule_without_a_column_deletes_all_its_rows() -> None:
    sessions(0, 3)
    rule = RetentionRule("Sessions", Session.objects.filter(session_key="key-0"))
    assert rule.prune(NOW) == 1
    assert keys() == {"key-1"}


def test_a_rule_may_clear_columns_in_place_of_a_deletion() -> None:
    sessions(1, 3)
    rule = RetentionRule(
        "Sessions", Session.objects.all(), "expire_date", timedelta(days=2), clear={"session_data": "cleared"}
    )
    assert rule.prune(NOW) == 1
    assert set(Session.objects.values_list("session_key", "session_data")) == {
        ("key-0", ""),
        ("key-1", "cleared"),
    }


def test_a_setting_decides_how_long_rows_are_kept_and_nothing_goes_without_a_period(
    settings: Settings,
) -> None:
    sessions(1, 3)
    rule = RetentionRule("Sessions", Session.objects.all(), "expire_date", setting="DAYS")
    settings.RETENTION_DAYS = {"DAYS": 0}
    assert rule.prune(NOW) == 0
    settings.RETENTION_DAYS = {"DAYS": 2}
    assert rule.prune(NOW) == 1
    assert keys() == {"key-0"}
    assert RetentionRule("Sessions", Session.objects.all(), "expire_date", age=None).prune(NOW) == 0


def test_a_prune_of_many_rows_leaves_some_for_the_next_one() -> None:
    sessions(3, 3, 3)
    rule = RetentionRule("Sessions", Session.objects.all(), "expire_date", batch_size=1, most_batches=2)
    assert rule.prune(NOW) == 2
    assert rule.prune(NOW) == 1


def test_rules_are_pruned_in_their_order() -> None:
    sessions(3)
    rules = [
        RetentionRule("Sessions", Session.objects.all(), "expire_date"),
        RetentionRule("Sessions", Session.objects.all()),
    ]
    assert prune_rows(rules, NOW) == 1
