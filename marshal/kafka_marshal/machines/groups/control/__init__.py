"""The controller of one partition: what it reads, decides, promises and answers."""
