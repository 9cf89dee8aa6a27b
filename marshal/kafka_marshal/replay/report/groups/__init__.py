"""The page of groups with a controller: ownership, rebalances, controllers, findings."""
