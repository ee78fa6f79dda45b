"""Effect of pushes to ECR on triggers that poll the repository: the next look comes at once."""

from collections.abc import Sequence
from datetime import datetime

from connectors.models import Connector
from connectors.queries import find_connector
from connectors.specs.aws import parse_aws_spec
from delegates.event_queues.coverage import QueueCoverage
from delegates.event_queues.events import AwsEvent, PushEvent
from pipelines.models import TriggerWatch
from pipelines.triggers.kinds.image import CONNECTOR, REGION
from pipelines.triggers.watches import wake_watches


def wake_for_pushes(coverage: QueueCoverage, events: Sequence[AwsEvent], now: datetime) -> None:
    """Have repositories looked at now that a trigger polls through the connector of the queue.

    An event decides nothing, so late and repeated ones only cost a look. A first look stays on time, because
    it starts nothing.
    """
    repositories = {event.repository for event in events if isinstance(event, PushEvent)}
    if not repositories:
        return
    watches = TriggerWatch.objects.filter(
        kind=TriggerWatch.Kind.REPOSITORY,
        subject__in=repositories,
        looked_at__isnull=False,
        trigger__is_enabled=True,
        trigger__pipeline__deleted_at=None,
    )
    rows = watches.select_related("trigger__pipeline__scope").defer("trigger__secret")
    concerned = [watch.pk for watch in rows if _is_read_through(watch, coverage)]
    wake_watches(TriggerWatch.objects.filter(pk__in=concerned), now)


def _is_read_through(watch: TriggerWatch, coverage: QueueCoverage) -> bool:
    connector = find_connector(watch.scope, str(watch.settings[CONNECTOR]), Connector.Kind.AWS)
    if connector is None or connector.pk != coverage.connector:
        return False
    region = watch.settings[REGION] or parse_aws_spec(connector.spec).test_region
    return bool(region == coverage.region)
