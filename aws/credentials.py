"""AWS credentials: access key, default chain, or assumed role."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class AccessKey:
    """A key pair, with a session token if it is a temporary one; its secrets are never printed."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


@dataclass(frozen=True)
class DefaultChain:
    """Whatever the process finds: environment, shared files, container or instance role."""


@dataclass(frozen=True)
class AssumedRole:
    """A role taken on by other credentials, renewed before it expires."""

    role_arn: str
    base: AccessKey | DefaultChain = DefaultChain()
    external_id: str = field(default="", repr=False)
    session_name: str = "slipway"


Credentials = AccessKey | DefaultChain | AssumedRole
