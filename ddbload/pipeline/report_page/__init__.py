"""The page `report.html`: figures of a run, and how they are drawn, without scripts."""
