"""From a graph to what runs: placement, fusion, and the steps of each phase."""
