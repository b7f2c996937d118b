"""The demonstration: workloads as an API server would send them to a gateway that runs as its own process."""
