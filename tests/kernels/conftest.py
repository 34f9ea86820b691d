"""Kernels run on a GPU, or in Triton's interpreter where Triton is installed without one."""

import pytest
import torch


@pytest.fixture
def kernel_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _full_precision_products():
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before
