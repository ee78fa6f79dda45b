"""ECS services that other tools deploy are left alone, with the way out."""

import pytest

from steps.actions.base import ActionFailed
from steps.actions.ecs_service.snapshots import refuse_foreign_controller


def test_an_express_service_is_left_alone_by_every_step() -> None:
    before = {"name": "shop", "raw": {"resourceManagementType": "ECS"}}
    for for_native in (False, True):
        with pytest.raises(ActionFailed, match="update-express-gateway-service"):
            refuse_foreign_controller(before, for_native=for_native)


def test_a_service_of_its_customer_is_deployed() -> None:
    refuse_foreign_controller({"name": "shop", "raw": {"resourceManagementType": "CUSTOMER"}})
