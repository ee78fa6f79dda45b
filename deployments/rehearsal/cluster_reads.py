"""Reads of a real cluster that fill the sandbox of a rehearsal."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from aws.apis.iam import StsClient
from aws.caller import Caller, paginate, split_batches
from aws.errors import AwsError, NotFound
from aws.preview import PlannedCall

Row = dict[str, Any]
SERVICES_PER_CALL = 10
GROUPS_PER_CALL = 20
# The parameters of calls that name services and load balancer resources.
_SERVICE_PARAMETERS = ("service", "services", "serviceName")
_DEFINITION_MARK = ":task-definition/"
_ELB_ARN = re.compile(r"arn:aws[\w-]*:elasticloadbalancing:")


@dataclass
class ClusterSnapshot:
    """What could be read of a cluster, as `POST /sandbox/snapshot` takes it, and what could not."""

    account: str
    region: str
    cluster: str
    resources: dict[str, Any] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)

    def build_document(self, behavior: str, images: Sequence[str]) -> dict[str, Any]:
        """Return the document with the behavior of the deployed images."""
        place = {"account": self.account, "region": self.region}
        return {**place, **self.resources, "behavior": behavior, "images": list(images)}

    def count(self) -> dict[str, int]:
        """Return the number of resources of each kind that has any."""
        lists = {name: len(rows) for name, rows in self.resources.items() if isinstance(rows, list)}
        return {name: count for name, count in lists.items() if count}


def read_cluster(
    caller: Caller,
    *,
    region: str,
    cluster: str,
    calls: Sequence[PlannedCall],
    documents: Sequence[Any] = (),
) -> ClusterSnapshot:
    """Return the cluster, and of it what these calls and saved documents of AWS name.

    These are the services, their task definitions, load balancers with listeners, rules and target groups,
    subnets and security groups. Raises `AwsError` if account or cluster are unreadable or missing; anything
    else that cannot be read is listed in `unread`.
    """
    reading = _ReadingCaller(caller)
    snapshot = ClusterSnapshot(StsClient(reading).get_account_id(), region, cluster)
    return _ClusterReads(reading, snapshot).read(calls, documents)


@dataclass(frozen=True)
class _ReadingCaller:
    """Caller of the real account, which refuses everything but reads."""

    caller: Caller

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if PlannedCall(service, operation, dict(params)).is_write:
            raise ValueError(f"A rehearsal does not send {service} {operation}.")
        return self.caller.call(service, operation, params)


class _ClusterReads:
    """Reads of one cluster, in the order of their references."""

    def __init__(self, caller: Caller, snapshot: ClusterSnapshot) -> None:
        self._caller = caller
        self._snapshot = snapshot

    def read(self, calls: Sequence[PlannedCall], documents: Sequence[Any]) -> ClusterSnapshot:
        snapshot, resources = self._snapshot, self._snapshot.resources
        described = self._caller.call("ecs", "DescribeClusters", {"clusters": [snapshot.cluster]})
        clusters = [row for row in described.get("clusters", ()) if row.get("status") == "ACTIVE"]
        if not clusters:
            message = f"cluster {snapshot.cluster} does not exist in {snapshot.region}"
            raise NotFound("ClusterNotFoundException", message, "ecs", "DescribeClusters")
        resources["cluster"] = clusters[0]
        named = [*(call.params for call in calls), *documents]
        names = dict.fromkeys([*_list_service_names(calls), *find_texts(documents, "serviceName")])
        found = self._read("services", lambda: self._list_services(list(names)))
        self._read_load_balancers({*_list_elb_arns(named), *_list_elb_arns(found)})
        resources["services"] = found
        arns = dict.fromkeys(find_texts([*found, *documents], "taskDefinition"))
        resources["taskDefinitions"] = [
            row
            for arn in arns
            if _DEFINITION_MARK in arn
            for row in self._read(f"task definition {arn}", partial(self._list_definition, arn))
        ]
        self._read_network([*found, *named])
        return snapshot

    def _read(self, subject: str, read: Callable[[], list[Row]]) -> list[Row]:
        try:
            return read()
        except AwsError as error:
            self._snapshot.unread.append(f"{subject}: {error.display_message}")
            return []

    def _list_services(self, names: Sequence[str]) -> list[Row]:
        rows: list[Row] = []
        for batch in split_batches(names, SERVICES_PER_CALL):
            params = {"cluster": self._snapshot.cluster, "services": batch, "include": ["TAGS"]}
            rows += self._caller.call("ecs", "DescribeServices", params).get("services", ())
        return [row for row in rows if row.get("status") == "ACTIVE"]

    def _list_definition(self, arn: str) -> list[Row]:
        params = {"taskDefinition": arn, "include": ["TAGS"]}
        answer = self._caller.call("ecs", "DescribeTaskDefinition", params)
        return [{**answer["taskDefinition"], "tags": answer.get("tags", [])}]

    def _read_load_balancers(self, arns: set[str]) -> None:
        """Read the load balancers behind ARNs of target groups, listeners or rules, with all they have."""
        resources = self._snapshot.resources
        groups = [arn for arn in sorted(arns) if ":targetgroup/" in arn]
        known = self._read("target groups", lambda: self._list_groups(groups))
        balancers = {name for row in known for name in row.get("LoadBalancerArns", ())}
        balancers |= {_get_balancer_arn(arn) for arn in arns if ":listener" in arn}
        resources["loadBalancers"] = self._read("load balancers", lambda: self._list_balancers(balancers))
        names = [row["LoadBalancerArn"] for row in resources["loadBalancers"]]
        listeners = self._read(
            "listeners", lambda: self._list_children("Listeners", "LoadBalancerArn", names)
        )
        listener_arns = [row["ListenerArn"] for row in listeners]
        rules = self._read(
            "listener rules", lambda: self._list_children("Rules", "ListenerArn", listener_arns)
        )
        named = {arn for arn in _list_elb_arns([*listeners, *rules]) if ":targetgroup/" in arn}
        more = sorted(named - {row["TargetGroupArn"] for row in known})
        known += self._read("target groups of the listeners", lambda: self._list_groups(more))
        resources["targetGroups"] = self._add_attributes(known)
        resources |= {"listeners": listeners, "rules": rules}

    def _list_groups(self, arns: Sequence[str]) -> list[Row]:
        rows: list[Row] = []
        for batch in split_batches(arns, GROUPS_PER_CALL):
            answer = self._caller.call("elbv2", "DescribeTargetGroups", {"TargetGroupArns": batch})
            rows += answer.get("TargetGroups", ())
        return rows

    def _list_balancers(self, arns: set[str]) -> list[Row]:
        if not arns:
            return []
        params = {"LoadBalancerArns": sorted(arns)}
        return list(self._caller.call("elbv2", "DescribeLoadBalancers", params).get("LoadBalancers", ()))

    def _list_children(self, key: str, parameter: str, arns: Sequence[str]) -> list[Row]:
        names = {"result_key": key, "cursor_key": "Marker", "response_cursor_key": "NextMarker"}
        return [
            row
            for arn in arns
            for row in paginate(self._caller, "elbv2", f"Describe{key}", {parameter: arn}, **names)
        ]

    def _add_attributes(self, groups: list[Row]) -> list[Row]:
        """Return the groups with their attributes, as far as those are readable."""
        for group in groups:
            params = {"TargetGroupArn": group["TargetGroupArn"]}
            try:
                answer = self._caller.call("elbv2", "DescribeTargetGroupAttributes", params)
            except AwsError as error:
                self._snapshot.unread.append(f"attributes of target groups: {error.display_message}")
                break
            group["Attributes"] = answer.get("Attributes", [])
        return groups

    def _read_network(self, documents: Sequence[Any]) -> None:
        """Read the subnets and security groups of services and calls, and the subnets of balancers."""
        resources = self._snapshot.resources
        configurations = [item for document in documents for item in _find(document, "awsvpcConfiguration")]
        zones = [zone for row in resources["loadBalancers"] for zone in row.get("AvailabilityZones", ())]
        subnets = {name for item in configurations for name in item.get("subnets", ())}
        subnets |= {zone["SubnetId"] for zone in zones if zone.get("SubnetId")}
        groups = {name for item in configurations for name in item.get("securityGroups", ())}
        resources["subnets"] = self._read_ids(
            subnets, ("DescribeSubnets", "Subnets", "subnet-id"), self._build_subnet
        )
        resources["securityGroups"] = self._read_ids(
            groups, ("DescribeSecurityGroups", "SecurityGroups", "group-id"), lambda name: {"GroupId": name}
        )

    def _read_ids(
        self, ids: set[str], read: tuple[str, str, str], make_up: Callable[[str], Row]
    ) -> list[Row]:
        """Return the resources with these ids; made up if nobody may read them, as they matter little."""
        operation, key, name = read
        # A filter, because an unknown id would refuse all the others.
        params = {"Filters": [{"Name": name, "Values": sorted(ids)}]}
        pages = paginate(self._caller, "ec2", operation, params, result_key=key, cursor_key="NextToken")
        try:
            return list(pages) if ids else []
        except AwsError as error:
            self._snapshot.unread.append(f"{key}, which are assumed to exist: {error.display_message}")
            return [make_up(item) for item in sorted(ids)]

    def _build_subnet(self, name: str) -> Row:
        zone = f"{self._snapshot.region}a"
        return {"SubnetId": name, "VpcId": "vpc-0", "CidrBlock": "10.0.0.0/20", "AvailabilityZone": zone}


def _list_service_names(calls: Iterable[PlannedCall]) -> list[str]:
    values = [
        call.params.get(name) for call in calls if call.service == "ecs" for name in _SERVICE_PARAMETERS
    ]
    flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
    # A name in angle brackets stands for what only a run creates.
    names = (str(item).rpartition("/")[2] for item in flat if item and "<" not in str(item))
    return list(dict.fromkeys(names))


def find_texts(value: Any, key: str) -> Iterator[str]:
    """Yield the texts under a key at any depth of documents of AWS."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name == key and isinstance(item, str):
                yield item
            else:
                yield from find_texts(item, key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from find_texts(item, key)


def _list_elb_arns(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if _ELB_ARN.match(value):
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _list_elb_arns(item)
    elif isinstance(value, Iterable):
        for item in value:
            yield from _list_elb_arns(item)


def _get_balancer_arn(arn: str) -> str:
    """Return the load balancer's ARN of a listener's or a rule's."""
    base, _, path = arn.partition(":listener-rule/" if ":listener-rule/" in arn else ":listener/")
    return f"{base}:loadbalancer/{'/'.join(path.split('/')[:3])}"


def _find(value: Any, key: str) -> Iterator[Mapping[str, Any]]:
    if not isinstance(value, Mapping):
        return
    for name, item in value.items():
        if name == key and isinstance(item, Mapping):
            yield item
        else:
            yield from _find(item, key)
