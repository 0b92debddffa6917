"""The other OpenStack services: our account, the catalogue, and one HTTP client a service. Used by adapters only."""
