"""numpy: whole distributions and grids. Loaded only by those who ask for one."""
