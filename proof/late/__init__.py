"""Readers that begin in the middle, proved for any log and any beginning: SuffixExact."""
