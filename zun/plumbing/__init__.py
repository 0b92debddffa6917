"""Network interfaces of containers on this machine: veth pairs, Open vSwitch, Linux bridges, network namespaces.

Knows no engine and no Neutron; used by the network adapters. Needs CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_SYS_PTRACE.
"""
