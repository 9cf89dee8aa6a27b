"""Commands on a live cluster: a trial broker, the topic, claims, positions, pauses."""
