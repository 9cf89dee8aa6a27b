"""What an application sees: the consumer, for threads and for asyncio."""
