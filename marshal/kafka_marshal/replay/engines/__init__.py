"""The engines that run a fold: processes of this machine or Spark, in one run or several."""
