"""What a deployment costs: parity, latency, overhead, scaling, the service under load."""
