"""The proxy of interactive sessions: browsers and terminals on one side, the nodes' relays on the other (scenario 4).

It reads the database and connects to relays, nothing else.
"""
