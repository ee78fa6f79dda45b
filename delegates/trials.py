"""What comes of trying a connector, whatever it leads to."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Check:
    """One thing that was tried."""

    name: str
    ok: bool
    message: str


@dataclass(frozen=True)
class ConnectorTest:
    """What came of trying a connector; `policy` is JSON that would help where a policy is missing."""

    ok: bool
    message: str
    region: str = ""
    account_id: str = ""
    arn: str = ""
    checks: tuple[Check, ...] = ()
    next_step: str = ""
    policy: str = ""
    delegate: str = ""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "checks": [asdict(one) for one in self.checks]}
