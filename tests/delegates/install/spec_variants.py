"""Every kind of spec that can be asked for: flavour, launch type, secret and network."""

from dataclasses import replace
from itertools import product

from delegates.install import SpecNetwork, SpecRequest, TokenSecret
from delegates.install.specs import NetworkMode

ACCOUNT = "123456789012"
ARN = f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:harness/delegate-token-a1B2c3"
SUBNETS = ("subnet-0a1b2c3d", "subnet-0a1b2c3e")
BASE = SpecRequest(
    account_id="Q2h5Zm9yZGVsZWdhdGVzMQ",
    manager_url="https://slipway.example.com",
    image="registry.example.com/slipway-delegate:1.4.0",
    name="blue-delegate",
    token="slp_dlt_" + "x" * 43,
    aws_account_id=ACCOUNT,
    tags=("aws", "production"),
)
SECRETS = (TokenSecret(), TokenSecret("EXISTING", arn=ARN), TokenSecret("CREATE"))


def build_request(flavour: str = "v3", launch_type: str = "FARGATE", **values: object) -> SpecRequest:
    """Build a complete request."""
    network = SpecNetwork(SUBNETS, ("sg-0a1b2c3d",))
    return replace(BASE, **{"flavour": flavour, "launch_type": launch_type, "network": network, **values})  # type: ignore[arg-type]


def _list_network_modes(launch_type: str) -> tuple[NetworkMode, ...]:
    return ("",) if launch_type == "FARGATE" else ("", "host", "awsvpc")


MATRIX = [
    build_request(
        flavour, launch_type, secret=secret, network=SpecNetwork(SUBNETS, ("sg-0a1b2c3d",), public, mode)
    )
    for flavour, launch_type, secret, public in product(
        ("legacy", "v3"), ("EC2", "FARGATE"), SECRETS, (True, False)
    )
    for mode in _list_network_modes(launch_type)
]


def format_name(request: SpecRequest) -> str:
    """Return the test id of a request."""
    mode = request.network.mode or "usual"
    public = "public" if request.network.assign_public_ip else "private"
    return f"{request.flavour}-{request.launch_type}-{request.secret.kind}-{mode}-{public}"
