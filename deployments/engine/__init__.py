"""Engine that reconciles executions."""
