"""Others who start jobs again by themselves: Slurm, SkyPilot; asked before a restore, so that no job is started twice."""
