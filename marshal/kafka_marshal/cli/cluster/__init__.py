"""Commands on a live cluster: brokers to try with, the topic, claims, positions, pauses."""
