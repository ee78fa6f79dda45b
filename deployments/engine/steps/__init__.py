"""Steps of a stage: their order, preconditions, inputs, outputs and retries."""
