"""Whether what runs is what was deployed, and taking over what somebody else deployed."""
