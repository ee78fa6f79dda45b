"""Policy rules that pipelines, manifests and runs have to meet."""
