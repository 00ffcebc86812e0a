"""What all flows share: evidence, candidates, costs, grants, the journal of one item, long calls."""
