# SPDX-License-Identifier: GPL-2.0
"""Builds test kernels, boots them as guests and judges what they print."""
