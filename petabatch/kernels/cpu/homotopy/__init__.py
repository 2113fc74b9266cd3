"""Codes of single positions, compiled: the path of LASSO solutions down to a penalty, item by item."""
