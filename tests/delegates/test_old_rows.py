"""Rows that an older Slipway wrote are put right when it is brought up to date."""

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from delegates.models import DelegateTask
from rbac.models import Scope
from tests.delegates.making import make_task

pytestmark = pytest.mark.django_db


def test_variables_that_old_tasks_kept_as_their_environment_are_forgotten(project: Scope) -> None:
    # A mapping was written into the column as its text.
    old = make_task(project, environment=str({"TOKEN": "was secret"}))
    new = make_task(project, environment=f"{project.path}/prod")
    import_module("delegates.migrations.0011_forget_variables_of_scripts").forget(
        apps, connection.schema_editor()
    )
    kept = dict(DelegateTask.objects.values_list("pk", "environment"))
    assert kept == {old.pk: "", new.pk: f"{project.path}/prod"}
