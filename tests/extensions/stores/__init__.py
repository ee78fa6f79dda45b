"""A manifest store as an extension adds it to `catalog/manifests/stores`."""
