"""The verbs of AWS that actions use, over one way of making calls."""

from aws.caller import Caller
from aws.cloudformation import CloudFormation
from aws.cloudwatch import CloudWatch
from aws.ecs import Ecs
from aws.elb import Elb
from aws.logs import Logs
from aws.scaling import Scaling


class Verbs:
    """Each service of AWS as a rollout offers it; `caller` is the way that its calls take."""

    @property
    def caller(self) -> Caller:
        raise NotImplementedError

    @property
    def ecs(self) -> Ecs:
        return Ecs(self.caller)

    @property
    def scaling(self) -> Scaling:
        return Scaling(self.caller)

    @property
    def logs(self) -> Logs:
        return Logs(self.caller)

    @property
    def cloudwatch(self) -> CloudWatch:
        return CloudWatch(self.caller)

    @property
    def elb(self) -> Elb:
        return Elb(self.caller)

    @property
    def cloudformation(self) -> CloudFormation:
        return CloudFormation(self.caller)
