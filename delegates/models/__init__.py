"""Tables of delegates, tags, instances, configurations, tasks, lookup requests and reads of secrets."""

from delegates.models.configurations import ConfigurationRun, DelegateConfiguration
from delegates.models.delegates import AccountId, Delegate, DelegateToken, get_account_id
from delegates.models.instances import DelegateEvent, DelegateInstance, DelegateLogChunk, InstanceSample
from delegates.models.refused_instances import RefusedInstance
from delegates.models.secret_reads import SecretRead
from delegates.models.tags import DelegateTag
from delegates.models.tasks import (
    AllowlistEntry,
    BlocklistEntry,
    DelegateTask,
    LastServed,
    LateAnswer,
    LookupRequest,
    RoutingDecision,
    TaskAttempt,
    TaskLogChunk,
)

__all__ = [
    "AccountId",
    "AllowlistEntry",
    "BlocklistEntry",
    "ConfigurationRun",
    "Delegate",
    "DelegateConfiguration",
    "DelegateEvent",
    "DelegateInstance",
    "DelegateLogChunk",
    "DelegateTag",
    "DelegateTask",
    "DelegateToken",
    "InstanceSample",
    "LastServed",
    "LateAnswer",
    "LookupRequest",
    "RefusedInstance",
    "RoutingDecision",
    "SecretRead",
    "TaskAttempt",
    "TaskLogChunk",
    "get_account_id",
]
