"""What runs a fold: this process or Spark, at once or run by run."""
