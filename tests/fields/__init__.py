"""Field extraction by schema."""
