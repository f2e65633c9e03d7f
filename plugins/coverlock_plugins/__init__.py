"""First-party plugins, registered through the same entry points as a vendor's."""
