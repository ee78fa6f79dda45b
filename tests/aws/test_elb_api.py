"""The load balancer verbs: what they send, and what they make of the answers."""

from aws.apis.elb import ElbClient, get_target_group_weights
from tests.aws.fake_caller import ListedCaller

LISTENER = {"ListenerArn": "arn:l1", "LoadBalancerArn": "arn:lb", "Port": 80, "DefaultActions": []}


def test_listeners_are_read_to_the_last_page() -> None:
    caller = ListedCaller(
        {"Listeners": [LISTENER], "NextMarker": "more"},
        {"Listeners": [{**LISTENER, "ListenerArn": "arn:l2", "Port": 8080}]},
    )
    listeners = ElbClient(caller).list_listeners("arn:lb")
    assert [(listener.arn, listener.port) for listener in listeners] == [("arn:l1", 80), ("arn:l2", 8080)]
    assert caller.calls[1][2]["Marker"] == "more"


def test_a_load_balancer_is_found_by_its_name_and_by_its_arn() -> None:
    caller = ListedCaller({"LoadBalancers": [{"LoadBalancerName": "web"}]}, {"LoadBalancers": [{}]})
    assert ElbClient(caller).get_load_balancer("web").name == "web"
    ElbClient(caller).get_load_balancer("arn:aws:elasticloadbalancing:lb")
    assert [call[2] for call in caller.calls] == [
        {"Names": ["web"]},
        {"LoadBalancerArns": ["arn:aws:elasticloadbalancing:lb"]},
    ]


def test_where_an_action_forwards_is_read_from_either_form() -> None:
    two = {"TargetGroups": [{"TargetGroupArn": "a", "Weight": 3}, {"TargetGroupArn": "b", "Weight": 0}]}
    assert get_target_group_weights([{"Type": "forward", "ForwardConfig": two}]) == {"a": 3, "b": 0}
    assert get_target_group_weights([{"Type": "forward", "TargetGroupArn": "a"}]) == {"a": 1}
    assert get_target_group_weights([{"Type": "fixed-response"}]) == {}
