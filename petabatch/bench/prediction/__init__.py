"""Prediction of the time of a display on many ranks: a calibration on this machine and a model of messages.

link         latency and bandwidth of a network between ranks
collectives  messages and bytes of collective operations, by algorithm
traffic      what the ranks of a network exchange, and how often
calibration  times of this network on this machine, kept as JSON; calibrate measures them
model        time, bytes and communication of a display, by number of ranks and way of splitting
report       the tables, the choice between the ways, remarks;  figure draws them
"""
