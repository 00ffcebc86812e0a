"""People: the terminal application, the command line, scripted runs and the operations behind them."""
