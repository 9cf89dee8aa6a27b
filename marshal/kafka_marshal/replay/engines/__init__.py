"""What runs a fold: processes of this machine or Spark, at once or run by run."""
