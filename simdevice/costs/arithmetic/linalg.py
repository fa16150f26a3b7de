"""Dense factorisations and solvers: the leading term of the textbook count; n is the order of the matrix.

Source: G. H. Golub, C. F. Van Loan, Matrix Computations, 4th ed. (sections named at each rule), and
LAPACK Users' Guide, 3rd ed., table 3.13. Eigenvalues and singular values iterate until they converge;
their counts are the customary averages.
"""

from __future__ import annotations

from collections.abc import Callable

from simdevice.costs.registry import streamed
from simdevice.records import Cost, Signature, TensorSpec

__all__ = ["ITERATES", "LEADING", "counted", "lu_flops", "matrices", "qr_flops", "square"]

LEADING = "leading term of the textbook operation count"
ITERATES = "customary average of an iteration that stops when it converges"


def matrices(tensor: TensorSpec) -> tuple[int, int, int]:
    """How many matrices, and their rows and columns."""
    rows, columns = tensor.shape[-2:]
    return tensor.numel // max(rows * columns, 1), rows, columns


def counted(signature: Signature, flops: int, reason: str = LEADING) -> Cost:
    """Every input read once, every output written once."""
    return streamed(signature, "linalg", flops, reason=reason)


def square(signature: Signature, count: Callable[[int], int], reason: str = LEADING) -> Cost:
    """So many FLOPs for each square matrix of the first input, by its order."""
    batch, order, _ = matrices(signature.inputs[0])
    return counted(signature, batch * count(order), reason)


def lu_flops(rows: int, columns: int) -> int:
    """m n^2 - n^3/3 for m >= n (section 3.4): 2 n^3/3 where square."""
    long, short = max(rows, columns), min(rows, columns)
    return (3 * long * short**2 - short**3) // 3


def qr_flops(rows: int, columns: int) -> int:
    """Householder: 2 m n^2 - 2 n^3/3 for m >= n (section 5.2)."""
    long, short = max(rows, columns), min(rows, columns)
    return (6 * long * short**2 - 2 * short**3) // 3
