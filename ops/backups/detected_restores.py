"""Restores that nobody reported, noticed before anything continues on the older database."""

import logging

from django.db import transaction

from ops.backups.restores import settle_restored_state
from web.epochs import get_epoch, is_database_behind
from web.models import InstallationEpoch

logger = logging.getLogger(__name__)


def settle_detected_restore() -> None:
    """Pause, end and hold what is under way if the database is older than what Valkey remembers."""
    if not is_database_behind():
        return
    with transaction.atomic():
        # Of several processes, one settles.
        list(InstallationEpoch.objects.select_for_update())
        epoch = get_epoch()
        if epoch is None or not is_database_behind():
            return
        logger.critical(
            "The database is in its state of %s, and Valkey remembers a later one: it was restored. "
            "Executions that were under way wait for a person.",
            epoch.advanced_at.isoformat(timespec="seconds"),
        )
        audited: dict[str, object] = {"detected": True, "state_of": epoch.advanced_at.isoformat()}
        settle_restored_state(epoch.advanced_at, audited, was_detected=True)
