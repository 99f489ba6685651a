# SPDX-License-Identifier: GPL-2.0
"""Tests of the parser of headers: the calls of a header and their prototypes."""

import unittest

from kofi_lab.calls import declared

HEADER = """
#ifdef __cplusplus
extern "C" {
#endif
/* int fi_commented(void); */
#define fi_macro(x) \\
	fi_other(x)
typedef int fi_type(int);
struct fi_ops { int (*fi_member)(struct fid *fid); };
static inline int
fi_one(struct fid *fid, const struct iovec *iov, uint64_t flags)
{
	if (flags) { return fi_inner(fid); }
	return 0;
}
void fi_two(void);
static inline const char *fi_three(u8 *key, size_t len) { return 0; }
int not_ours(int x);
"""


class CallsTest(unittest.TestCase):
    """A header with calls and with constructs that are none."""

    def test_only_calls_are_found(self) -> None:
        self.assertEqual(["fi_one", "fi_three", "fi_two"], sorted(declared(HEADER)))

    def test_prototypes_are_in_the_kernels_terms(self) -> None:
        found = declared(HEADER)
        self.assertEqual("int (struct fid *, const struct kvec *, u64)", found["fi_one"])
        self.assertEqual("void (void)", found["fi_two"])
        self.assertEqual("const char * (u8 *, size_t)", found["fi_three"])

    def test_names_of_parameters_do_not_matter(self) -> None:
        one = declared("int fi_x(struct fid *fid, int count);")
        self.assertEqual(one, declared("int fi_x(struct fid *f, int n);"))
        self.assertNotEqual(one, declared("int fi_x(struct fid *fid, long count);"))
