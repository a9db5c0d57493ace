"""The sweep: boot, prove, measure, keep, resume. Free of frameworks, synchronous; it sees the world through ports."""
