"""The lines that the reference documents of each strategy, in their order; `*` stands for what differs.

They are R191-R202 for rolling, R221 and R223 for canary, R236 and R243 for blue/green. The store is named
without its vendor. Lines of ours may stand between them.
"""

FETCHED = tuple(
    line
    for kind, name in (("EcsTaskDefinition", "task def"), ("EcsServiceDefinition", "service def"))
    for line in (
        f"Fetching {kind} from File Store",
        "",
        f"Fetching {kind} files with identifier: {name}",
        "Fetching following Files :",
        "- *",
        "Successfully fetched following files:",
        "- *",
    )
) + ("Fetched all manifests from File Store",)

REGISTERED = (
    "Creating Task Definition with family *",
    "Created Task Definition *:* with Arn *..",
)


def _list_steady_lines(service: str, verb: str) -> tuple[str, ...]:
    return (
        "# AWS Event: <time> (service *) has started * tasks: (task <id>).",
        "Waiting for pending tasks to finish. 0/* running ...",
        "Waiting for pending tasks to finish. 1/* running ...",
        f"Waiting for Service {service} to reach steady state",
        f"Service {service} reached steady state",
        f"{verb} Service {service} with Arn *",
    )


def _rolled(service: str, verb: str, begins: str) -> tuple[str, ...]:
    return (
        *FETCHED,
        *REGISTERED,
        f"Deleting Scaling Policies from service {service}..",
        f"Didn't find any Scaling Policies attached to service {service}",
        f"Deregistering Scalable Targets from service {service}..",
        f"Didn't find any Scalable Targets on service {service}",
        f"{begins} Service {service} with task definition * and desired count *",
        f"Waiting for Service {service} to reach steady state",
        f"Service {service} reached steady state",
        f"{verb} Service {service} with Arn *",
        "",
        " Deployment Successful.",
    )


CANARY = (
    *FETCHED,
    *REGISTERED,
    "Creating Service webshopCanary with task definition * and desired count 1",
    *_list_steady_lines("webshopCanary", "Created"),
    "",
    " Deployment Successful.",
    "Deleting service webshopCanary..",
    "Waiting for existing Service webshopCanary to reach inactive state",
    "Existing Service webshopCanary reached inactive state",
    "Canary service webshopCanary deleted",
    *_rolled("webshop", "Updated", "Updating"),
)


def _traffic(listener: str, which: str) -> tuple[str, ...]:
    return (
        f"Modifying ELB {listener} Listener to Forward requests to Target group "
        f"associated with {which} Service",
        ",TargetGroup: *",
        "Modifying the default Listener: *",
        " with listener rule: * ",
        " to forward traffic to TargetGroup: *",
        f"Successfully updated {listener} Listener",
        "",
    )


BLUE_GREEN = (
    *FETCHED,
    *REGISTERED,
    "",
    "Creating Stage Service storefront__2 with task definition * and desired count 1",
    "# AWS Event: <time> (service storefront__2) has started 1 tasks: (task <id>).",
    "Waiting for pending tasks to finish. 0/1 running ...",
    "# AWS Event: <time> (service storefront__2) registered 1 targets in (target-group *)",
    "Waiting for pending tasks to finish. 1/1 running ...",
    "Waiting for Service storefront__2 to reach steady state",
    "Service storefront__2 reached steady state",
    "Created Stage Service storefront__2 with Arn *",
    "",
    "Target Group with Arn: * is associated with Stage Service storefront__2",
    "Tag: [BG_VERSION, GREEN] is associated with Stage Service storefront__2",
    *_traffic("Prod", "new"),
    *_traffic("Stage", "old"),
    "Updating tag of new service: storefront__2",
    "Updating service: storefront__2 with tag: [BG_VERSION, BLUE]",
    "Successfully updated tag",
    "",
    "Swapping Successful.",
)

REFERENCE = {
    "rolling": _rolled("myapp", "Updated", "Updating"),
    "canary": CANARY,
    "blue_green": BLUE_GREEN,
    "run_task": (),
}
