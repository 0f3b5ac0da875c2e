"""Python runs this first in the servers of tests that leave noise out, and in every process that they start."""

from cases.service.noiseless import MARK_BITS, leave_out_noise

leave_out_noise(setattr, 2**MARK_BITS)
