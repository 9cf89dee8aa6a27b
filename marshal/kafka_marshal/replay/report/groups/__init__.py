"""The page of groups with a controller: who owned what, rebalances, controllers, findings."""
