"""Planning of executions: validated run requests, rows, and what is reused from earlier runs."""
