"""Acceptance run: disposable deployments that compare ECS in one's own account with the sandbox."""
