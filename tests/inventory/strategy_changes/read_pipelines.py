"""A pipeline whose ECS service a delegate has read a moment ago."""

from catalog.models import Environment, Infrastructure, Manifest, Service
from connectors.models import Connector
from delegates.models import LookupRequest
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.inventory.strategy_changes.readings import build_option
from tests.inventory.strategy_changes.test_definitions import DEFINITION, PIPELINE
from web.clock import get_database_time


def make_read_pipeline(scope: Scope, reader: User) -> Pipeline:
    """Create a pipeline, its service and an answered lookup of `reader`."""
    connector = Connector.objects.create(
        scope=scope,
        identifier="remote_aws",
        name="Remote AWS",
        kind=Connector.Kind.AWS,
        spec={"credentials": "Delegate", "connect_through": "Delegate", "delegate_selectors": ["prod"]},
    )
    environment = Environment.objects.create(scope=scope, identifier="live", name="Live")
    Infrastructure.objects.create(
        environment=environment,
        identifier="main",
        name="Main",
        connector=connector,
        region="us-east-1",
        cluster="demo",
    )
    service = Service.objects.create(scope=scope, identifier="shop", name="Shop")
    Manifest.objects.create(
        service=service,
        identifier="service",
        kind=Manifest.Kind.SERVICE_DEFINITION,
        store="Inline",
        content=DEFINITION,
    )
    now = get_database_time()
    LookupRequest.objects.create(
        connector=connector,
        kind=LookupRequest.Kind.TRAFFIC,
        region="us-east-1",
        subject="demo/shop",
        requested_by=reader,
        requested_at=now,
        finished_at=now,
        report={"seen": [build_option()]},
    )
    text = PIPELINE.replace("environmentRef: dev", "environmentRef: live")
    return Pipeline.objects.create(scope=scope, identifier="shop", name="Shop", yaml=text)
