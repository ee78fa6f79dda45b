"""How a deployment is done: strategies, step kinds and their actions, without Django."""
