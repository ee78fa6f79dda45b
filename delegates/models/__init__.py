"""The tables of delegates, one file per noun."""

from delegates.models.account import AccountId, account_id
from delegates.models.configuration import ConfigurationRun, DelegateConfiguration
from delegates.models.delegate import Delegate
from delegates.models.event import DelegateEvent
from delegates.models.inquiry import Inquiry
from delegates.models.instance import DelegateInstance, DelegateLogChunk, InstanceSample
from delegates.models.routing import AllowlistEntry, BlocklistEntry, LastServed, RoutingDecision
from delegates.models.task import DelegateTask, LateAnswer, TaskAttempt, TaskLogChunk
from delegates.models.token import DelegateToken

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
    "DelegateTask",
    "DelegateToken",
    "Inquiry",
    "InstanceSample",
    "LastServed",
    "LateAnswer",
    "RoutingDecision",
    "TaskAttempt",
    "TaskLogChunk",
    "account_id",
]
