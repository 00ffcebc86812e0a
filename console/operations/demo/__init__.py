"""The story of the demo: jobs run, hosts are reclaimed, the jobs come back."""
