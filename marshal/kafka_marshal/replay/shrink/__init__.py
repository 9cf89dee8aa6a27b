"""The smallest part of a log that still shows a finding, as a capture and a test."""
