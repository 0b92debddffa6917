"""The node's side of CNI: the plug-in that containerd starts, and the daemon that does its work (S2.9-S2.12)."""
