"""The contract is asked of an endpoint that is only an address, with a clock that nobody moves."""

import os
import subprocess
import sys

from tests.clients.conftest import SPEED
from tests.contract.endpoint import PRETEND_KEY, Aws

# Those that wait for ends only: what lasts seconds is over in a moment at this speed.
CHOSEN = (
    "test_service_deployments.py::test_only_a_service_deployment_that_is_under_way_can_be_stopped",
    "test_rolling.py::test_a_deleted_service_drains_and_then_is_inactive",
    "test_lists.py::test_a_run_task_runs_until_it_is_stopped",
    "test_lists.py::test_a_page_of_services_may_have_more_than_can_be_described_at_once",
)


def test_it_holds_where_only_an_address_is_known(aws: Aws) -> None:
    variables = {
        "ENDPOINT": aws.endpoint.url,
        "REGION": aws.endpoint.region,
        "SUBNETS": ",".join(aws.endpoint.subnets),
        "SECURITY_GROUP": aws.endpoint.security_group,
        "EXECUTION_ROLE": aws.endpoint.execution_role_arn,
        "VPC": aws.endpoint.vpc,
        "ACCESS_KEY": PRETEND_KEY,
        "SPEED": f"{SPEED:g}",
    }
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        + [f"tests/contract/{name}" for name in CHOSEN],
        env={**os.environ, **{f"SLIPWAY_CONTRACT_{name}": value for name, value in variables.items()}},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert process.returncode == 0, process.stdout
    assert f"{len(CHOSEN)} passed" in process.stdout
