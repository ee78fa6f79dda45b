"""Base of all Celery tasks, which runs none on a database that must not be changed."""

import logging
from typing import Any

from celery import Task

from web.database_guards import require_current_database
from web.http.outages import OUTAGE_ERRORS, is_outage

logger = logging.getLogger(__name__)


class GuardedTask(Task):
    """Task that is dropped while a guard refuses it; the next tick sends what is still due."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run the task if it may change the database."""
        try:
            require_current_database()
        except OUTAGE_ERRORS as error:
            if not is_outage(error):
                raise
            logger.warning("%s was not run: %s", self.name, error)
            return None
        return self.run(*arguments, **named)
