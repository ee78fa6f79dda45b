"""Counters of this process for Prometheus.

Where `PROMETHEUS_MULTIPROC_DIR` is set (a worker), the child processes count in files of that folder, and the
main process reads them all. `ops.metrics` exposes them.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

# A pass takes up to 30 s. More buckets cost space in the files of each child.
_SECONDS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

AWS_CALLS = Counter(
    "slipway_aws_calls_total",
    "Calls to AWS from Slipway itself, by result: ok, refused, throttled, unanswered or not_sent.",
    ["service", "operation", "result"],
)
AWS_CALL_SECONDS = Histogram(
    "slipway_aws_call_seconds", "Time of a call to AWS.", ["service"], buckets=_SECONDS
)
AWS_RATES = Gauge(
    "slipway_aws_rate",
    "Calls a second that Slipway makes at most, learned from AWS, by account and region, and kind of calls.",
    ["location", "calls"],
    multiprocess_mode="mostrecent",
)
RECONCILE_SECONDS = Histogram(
    "slipway_reconcile_seconds",
    "Time of a reconcile pass of one execution, by result: done or failed.",
    ["result"],
    buckets=_SECONDS,
)
LOG_LINES = Counter("slipway_log_lines_total", "Lines stored in logs of executions.")
SOCKETS = Gauge(
    "slipway_sockets", "Open WebSockets of this web process, by kind: page or delegate.", ["kind"]
)
TRIGGER_REQUESTS = Counter(
    "slipway_trigger_requests_total",
    "Requests to triggers, by result: accepted, refused (wrong signature) or unknown (no such trigger).",
    ["result"],
)
