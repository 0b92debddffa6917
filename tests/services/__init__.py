"""Tests beside real services: database servers, started by the fixtures."""
