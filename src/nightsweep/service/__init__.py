"""Around sweeps: Prefect's server and API over plain HTTP, files that outlive a process, checks of the box."""
