"""What both ends of a relay's connection share: certificates, TLS, and the words beside the bytes (S4.8)."""
