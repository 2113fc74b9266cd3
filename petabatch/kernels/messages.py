"""The table of messages between ranks that compiled code sends and receives in each step.

    table   int64 [PLACES]   addresses of two functions of C and of what they are called with

`start(count, requests)` starts all of them, `wait(count, requests, statuses)` waits until all have arrived;
both return 0, or the number of an error. They are `MPI_Startall` and `MPI_Waitall` with persistent requests.
"""

from __future__ import annotations

START, WAIT, COUNT, REQUESTS, STATUSES, WAITING, ERROR = range(7)
"""Places of the table: the functions; the number of messages, possibly 0; their requests and
statuses; an array int64 of threads that wait now, and of nanoseconds that they have waited; the error that
has ended them."""
PLACES = 7
