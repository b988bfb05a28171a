"""L_p norms, and the general framework of Datar et al. behind them."""
