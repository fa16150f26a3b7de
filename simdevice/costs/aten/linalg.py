"""Dense factorisations and solvers of ATen; sources and leading terms stand with the formulas (section numbers are of
Golub and Van Loan)."""

from __future__ import annotations

from simdevice.costs.arithmetic import movement
from simdevice.costs.arithmetic.linalg import ITERATES, counted, lu_flops, matrices, qr_flops, square
from simdevice.costs.aten._common import aten
from simdevice.costs.registry import register
from simdevice.records import Cost, Signature

__all__: list[str] = []


@register(*aten("cholesky linalg_cholesky_ex linalg_ldl_factor_ex"))
def cholesky(signature: Signature) -> Cost:
    """n^3/3 (section 4.2)."""
    return square(signature, lambda n: n**3 // 3)


@register("aten.cholesky_inverse")
def cholesky_inverse(signature: Signature) -> Cost:
    """From the factor: 2 n^3/3."""
    return square(signature, lambda n: 2 * n**3 // 3)


@register(*aten("_linalg_det _linalg_slogdet linalg_lu linalg_lu_factor_ex"))
def lu(signature: Signature) -> Cost:
    """Gaussian elimination with partial pivoting (section 3.4); a determinant is its diagonal."""
    batch, rows, columns = matrices(signature.inputs[0])
    return counted(signature, batch * lu_flops(rows, columns))


@register("aten.lu_unpack")
def lu_unpack(signature: Signature) -> Cost:
    """Copies the factors apart."""
    return movement(signature)


@register("aten.linalg_inv_ex")
def inverse(signature: Signature) -> Cost:
    """Elimination and n solutions: 2 n^3."""
    return square(signature, lambda n: 2 * n**3)


@register("aten._linalg_solve_ex")
def solve(signature: Signature) -> Cost:
    """A, B: elimination, then two triangular solutions of n^2 per right-hand side."""
    batch, order, _ = matrices(signature.inputs[0])
    return counted(signature, batch * lu_flops(order, order) + 2 * signature.inputs[1].numel * order)


@register("aten.linalg_solve_triangular")
def solve_triangular(signature: Signature) -> Cost:
    """A, B: n^2 per right-hand side."""
    return counted(signature, signature.inputs[1].numel * signature.inputs[0].shape[-1])


@register("aten.triangular_solve")
def triangular_solve(signature: Signature) -> Cost:
    """The same with the right-hand sides first."""
    return counted(signature, signature.inputs[0].numel * signature.inputs[1].shape[-1])


@register(*aten("_cholesky_solve_helper cholesky_solve"))
def solve_with_cholesky(signature: Signature) -> Cost:
    """Right-hand sides, factor: two triangular solutions."""
    return counted(signature, 2 * signature.inputs[0].numel * signature.inputs[1].shape[-1])


@register(*aten("linalg_ldl_solve linalg_lu_solve"))
def solve_with_factors(signature: Signature) -> Cost:
    """Factors, pivots, right-hand sides: two triangular solutions."""
    return counted(signature, 2 * signature.inputs[2].numel * signature.inputs[0].shape[-1])


@register("aten.geqrf")
def householder(signature: Signature) -> Cost:
    """Reflectors only (section 5.2)."""
    batch, rows, columns = matrices(signature.inputs[0])
    return counted(signature, batch * qr_flops(rows, columns))


@register("aten.linalg_qr")
def qr(signature: Signature) -> Cost:
    """Reflectors, and as much again to multiply them out into Q."""
    batch, rows, columns = matrices(signature.inputs[0])
    return counted(signature, 2 * batch * qr_flops(rows, columns))


@register("aten.linalg_householder_product")
def multiply_reflectors(signature: Signature) -> Cost:
    """Q from its reflectors."""
    batch, rows, columns = matrices(signature.inputs[0])
    return counted(signature, batch * qr_flops(rows, columns))


@register("aten.ormqr")
def apply_reflectors(signature: Signature) -> Cost:
    """Reflectors, tau, matrix: each of the k reflectors is applied at 4 FLOPs per element of the matrix."""
    return counted(signature, 4 * signature.inputs[2].numel * signature.inputs[1].shape[-1])


@register("aten.linalg_lstsq")
def least_squares(signature: Signature) -> Cost:
    """QR of A, then Q^T B and a triangular solution: 4 m n + n^2 per right-hand side, n the shorter side."""
    batch, rows, columns = matrices(signature.inputs[0])
    right = max(signature.inputs[1].numel // max(batch * rows, 1), 1)
    short = min(rows, columns)
    return counted(signature, batch * (qr_flops(rows, columns) + right * (4 * rows * columns + short**2)))


@register("aten._linalg_eigh", attributes=("compute_v",))
def symmetric_eigen(signature: Signature) -> Cost:
    """4 n^3/3 for values, 9 n^3 with vectors (section 8.3)."""
    vectors = signature.attribute("compute_v", True)
    return square(signature, lambda n: 9 * n**3 if vectors else 4 * n**3 // 3, reason=ITERATES)


@register("aten.linalg_eig")
def eigen(signature: Signature) -> Cost:
    """Hessenberg, QR iteration, vectors: 25 n^3 (section 7.5)."""
    return square(signature, lambda n: 25 * n**3, reason=ITERATES)


@register(*aten("_linalg_eigvals linalg_eigvals"))
def eigenvalues(signature: Signature) -> Cost:
    """Hessenberg and QR iteration: 10 n^3 (section 7.5)."""
    return square(signature, lambda n: 10 * n**3, reason=ITERATES)


@register("aten._linalg_svd", attributes=("compute_uv",))
def singular_values(signature: Signature) -> Cost:
    """4 m n^2 - 4 n^3/3 for values alone; 14 m n^2 + 8 n^3 for thin factors as well (section 8.6)."""
    batch, rows, columns = matrices(signature.inputs[0])
    long, short = max(rows, columns), min(rows, columns)
    values = (12 * long * short**2 - 4 * short**3) // 3
    flops = 14 * long * short**2 + 8 * short**3 if signature.attribute("compute_uv", True) else values
    return counted(signature, batch * flops, ITERATES)


@register("aten.linalg_pinv")
def pseudo_inverse(signature: Signature) -> Cost:
    """Singular values, then the product of the two factors."""
    batch, rows, columns = matrices(signature.inputs[0])
    long, short = max(rows, columns), min(rows, columns)
    return counted(signature, batch * (14 * long * short**2 + 8 * short**3 + 2 * rows * columns * short), ITERATES)


@register("aten.linalg_matrix_exp")
def matrix_exponential(signature: Signature) -> Cost:
    """A Taylor polynomial of degree 18 in 5 products, and squarings that depend on the norm and are not counted."""
    return square(signature, lambda n: 5 * 2 * n**3, reason="without the squarings, whose number depends on the norm")
