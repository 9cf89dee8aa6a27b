"""What applications are given: nothing twice, nothing skipped, nothing out of order."""
