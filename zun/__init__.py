"""Zun: OpenStack's container service."""

__version__ = "0.1.0"
