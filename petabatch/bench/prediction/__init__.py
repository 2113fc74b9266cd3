"""Prediction of the time of a display on many ranks: a calibration on this machine and a model of messages.

link         latency and bandwidth of a network between ranks
collectives  messages and bytes of collective operations, by algorithm
ways         ways to share slices among ranks
traffic      what the ranks of a way exchange, and how often; portions of the whole that one of them has
calibration  times of this network on this machine, kept as JSON; calibrate and part_times measure them
model        time, bytes and communication of a display, by number of ranks and way of splitting
report       the tables, the choice between the ways, remarks;  figure draws them
"""
