"""The audit: everything outside that is ours, against the records. What no record claims is told, and
removed when asked.

``node`` has the kinds that one machine holds, ``cloud`` those of services, ``audit`` looks and removes."""
