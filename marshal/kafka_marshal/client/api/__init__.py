"""The public API: the consumer, for threads and for asyncio."""
