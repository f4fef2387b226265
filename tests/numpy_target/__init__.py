"""A third target, as a toy: kernels as plain NumPy loops. Importing this registers it."""

from longhand.options import Device
from longhand.schedule.targets import TargetFacts
from longhand.targets import register
from tests.numpy_target.printer import NumpyLoops

NUMPY = TargetFacts("numpy", Device.CPU, "py")

register(NUMPY, NumpyLoops())
