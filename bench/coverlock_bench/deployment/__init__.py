"""What a deployment costs: latency, and the service under load and under attack."""
