"""What a replay puts aside and takes up again."""
