"""The runs of a sweep: on this machine or a cluster, killed or paused, and what they left."""
