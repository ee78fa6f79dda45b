"""How a deployment is done: strategies, step kinds and their actions; no Django, no Celery, no Channels."""
