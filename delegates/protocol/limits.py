"""Protocol limits: the times and sizes that the manager sets for its agents."""

from datetime import timedelta
from typing import Any

from delegates.connectivity import HEARTBEAT_INTERVAL
from guards.limits import AGENT_BYTES

SESSION = timedelta(hours=1)
# A heartbeat in the second half returns a new session; running calls may still use the previous one.
ROTATE_BEFORE = SESSION / 2
ROTATION_GRACE = timedelta(minutes=2)
LEASE = timedelta(seconds=20)
RENEW_SECONDS = 5
SEND_WITHIN_SECONDS = 5
MAX_WAIT_SECONDS = 50
# Longer than a gap between heartbeats: regular ends are reported by then.
DEADLINE_GRACE = timedelta(seconds=60)
APPROVAL_SECONDS = 10
GONE_AFTER = timedelta(hours=6)
SOCKET_PATH = "/ws/agent/"
PROTOCOL_LIMITS: dict[str, Any] = {
    "session_expires_in": int(SESSION.total_seconds()),
    "heartbeat_seconds": int(HEARTBEAT_INTERVAL.total_seconds()),
    "renew_seconds": RENEW_SECONDS,
    "lease_seconds": int(LEASE.total_seconds()),
    "poll_seconds": MAX_WAIT_SECONDS,
    "log_flush_seconds": 0.5,
    "log_chunk_bytes": AGENT_BYTES // 4,
    "socket_path": SOCKET_PATH,
}
