"""RunPod and Vast.ai: whose pods and instances are there, are they gone, what do they cost; by plain HTTP."""
