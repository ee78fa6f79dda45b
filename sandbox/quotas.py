"""AWS's published request quotas of ECS: token buckets for each account and region.

https://docs.aws.amazon.com/AmazonECS/latest/APIReference/request-throttling.html
"""

from dataclasses import dataclass, field

from sandbox.clock import CLOCK


@dataclass(frozen=True)
class PublishedQuota:
    """Bucket of one kind of calls: size, and refill per second."""

    burst: float
    per_second: float
    operations: tuple[str, ...]


PUBLISHED_QUOTAS = (
    PublishedQuota(20, 1, ("CreateCluster", "DeleteCluster", "UpdateCluster", "PutClusterCapacityProviders")),
    PublishedQuota(50, 20, ("DescribeClusters", "ListClusters")),
    PublishedQuota(20, 1, ("RegisterTaskDefinition", "DeregisterTaskDefinition")),
    PublishedQuota(50, 20, ("DescribeTaskDefinition", "ListTaskDefinitions", "ListTaskDefinitionFamilies")),
    PublishedQuota(50, 5, ("CreateService", "UpdateService", "DeleteService")),
    PublishedQuota(100, 20, ("DescribeServices", "ListServices")),
    PublishedQuota(100, 20, ("DescribeTasks", "ListTasks", "DescribeContainerInstances")),
    PublishedQuota(100, 40, ("RunTask", "StopTask", "ExecuteCommand")),
    PublishedQuota(50, 20, ("ListServiceDeployments", "DescribeServiceDeployments")),
    PublishedQuota(50, 20, ("DescribeServiceRevisions",)),
    PublishedQuota(20, 10, ("TagResource", "UntagResource", "ListTagsForResource")),
)
_QUOTAS = {operation: quota for quota in PUBLISHED_QUOTAS for operation in quota.operations}


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


@dataclass
class RequestQuotas:
    """Buckets of all accounts and regions, used while `are_enforced`.

    They fill with the time of AWS's dates, which does not run faster with the speed of the clock.
    """

    are_enforced: bool = False
    _buckets: dict[tuple[str, str, PublishedQuota], _Bucket] = field(default_factory=dict)

    def enforce(self, are_enforced: bool) -> None:
        """Begin or end to enforce the quotas, with full buckets."""
        self.are_enforced = are_enforced
        self._buckets.clear()

    def admits(self, account: str, region: str, service: str, operation: str) -> bool:
        """Take a token for a call, and return whether there was one."""
        quota = _QUOTAS.get(operation) if service == "ecs" else None
        if quota is None or not self.are_enforced:
            return True
        now = CLOCK.now().timestamp()
        bucket = self._buckets.setdefault((account, region, quota), _Bucket(quota.burst, now))
        bucket.tokens = min(bucket.tokens + (now - bucket.filled_at) * quota.per_second, quota.burst)
        bucket.filled_at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
