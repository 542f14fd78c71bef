"""Use cases of monitors and watches."""
