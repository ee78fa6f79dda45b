"""What `manage.py prepare` refuses."""

import pytest
from django.core.management.base import CommandError
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from ops.management.commands.prepare import refuse_former_state

pytestmark = pytest.mark.django_db


def test_a_database_from_before_the_first_release_is_refused_with_the_way_out() -> None:
    refuse_former_state()
    MigrationRecorder(connection).record_applied("drift", "0001_what_was_changed_outside")
    with pytest.raises(CommandError, match="Use an empty database"):
        refuse_former_state()
