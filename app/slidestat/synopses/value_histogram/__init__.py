"""Values between edges, and counter tables: exponential histograms side by side."""
