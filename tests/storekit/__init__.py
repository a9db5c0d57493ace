"""What tests of the store share: a cluster of their own, a fresh database each, and builders that name only what matters."""
