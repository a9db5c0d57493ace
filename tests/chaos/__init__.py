"""A real service on the simulated engine, killed at random moments; what is left is judged by SQL, Docker and ps."""
