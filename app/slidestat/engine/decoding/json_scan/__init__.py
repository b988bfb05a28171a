"""Kernels that read plain JSON records straight from a buffer; what is not plain they only mark."""
