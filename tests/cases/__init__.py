"""What tests of several files share: cases derived from the registries, laws by other roads, and a service to try."""
