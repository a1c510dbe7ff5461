import unittest

import paths  # noqa: F401  (sets the module path)
from compare_nccl_variables import listed, names_read


class NamesReadTest(unittest.TestCase):
    def test_parameters_and_texts_of_the_transport_are_found(self):
        self.assertEqual(names_read('NCCL_PARAM(IbTimeout, "IB_TIMEOUT", 20)\n'
                                    'const char* env = ncclGetEnv("NCCL_IB_HCA");\n'
                                    'getenv("NCCL_IBVERBS_LIB")'),
                         {"NCCL_IB_TIMEOUT", "NCCL_IB_HCA", "NCCL_IBVERBS_LIB"})

    def test_parameter_over_two_lines_is_found(self):
        self.assertEqual(names_read('NCCL_PARAM(IbTc,\n           "IB_TC", -1)'), {"NCCL_IB_TC"})

    def test_variables_of_other_parts_are_not(self):
        self.assertEqual(names_read('NCCL_PARAM(GinIbTc, "GIN_IB_TC", -1) ncclGetEnv("NCCL_DEBUG")'
                                    ' WARN("NCCL_IB_FOO is set")'), set())


class ListedTest(unittest.TestCase):
    def test_comments_are_no_names(self):
        self.assertEqual(listed("# a list\nNCCL_IB_TC 2.20.3 2.30.7 src/a.cc\n"), {"NCCL_IB_TC"})
