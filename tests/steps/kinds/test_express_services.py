"""Express services, which ECS manages, are left alone by the steps that would change them."""

import pytest

from tests.contract.endpoint import Aws
from tests.contract.express_services import create_express_service
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = (
    DEPLOY,
    "- step: {identifier: scale, type: EcsScale, spec: {service: myapp, instances: 3}}\n",
    "- step: {identifier: gone, type: EcsDeleteService, spec: {service: myapp}}\n",
)


def test_no_step_writes_to_an_express_service(write: Write, drive: Drive) -> None:
    create_express_service(Aws.pretend(drive.sandbox), "myapp")
    mark = drive.mark()
    for step in STEPS:
        execution = write(pipeline_text(stage_text(step))).run("1.27")
        assert execution.failure is not None
        assert execution.failure["code"] == "CONTROLLER_NOT_SUPPORTED"
        assert "Service myapp is left alone. It is an Express service" in execution.failure["message"]
        assert "update-express-gateway-service" in execution.failure["message"]
    assert drive.effects(mark) == []
