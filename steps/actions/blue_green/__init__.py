"""Actions of blue/green deployments."""
