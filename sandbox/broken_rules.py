"""Rules of AWS that this sandbox breaks on purpose, to test what is meant to notice it."""

BREAKABLE_RULES = {
    "steady_state_event": "a service that reached a steady state has no event about it",
    "breaker_threshold": "the circuit breaker trips at twice its threshold",
}

# moto creates its back ends per account and region, so they share the rules by import.
BROKEN_RULES: set[str] = set()
