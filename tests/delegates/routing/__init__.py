"""Which delegate gets a task, and what becomes of tasks that none takes."""
