"""Capsules on a node: what they hold, how their members come up and are kept as their policies say."""
