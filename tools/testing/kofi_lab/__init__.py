# SPDX-License-Identifier: GPL-2.0
"""The test lab: builds test kernels, boots them as guests, and evaluates the results that the guests print."""
