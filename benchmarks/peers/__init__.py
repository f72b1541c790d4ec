"""The same computations written the plain way, for comparison: ours, but as anyone would write them first."""
