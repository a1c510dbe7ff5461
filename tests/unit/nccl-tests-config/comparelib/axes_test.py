import unittest

import paths  # noqa: F401  (sets the module path)
from comparelib import axes


class AxesTest(unittest.TestCase):

    def test_Values_LieInsideTheAxisWithLabelledTicks(self):
        for values in ([8, 7000], [0.0004, 400], [3, 4], [1, 1], [10, 100], [99.5, 100]):
            axis = axes.value_axis(values, 300, 10)
            ticks = axes.value_ticks(axis)
            self.assertTrue(axis.low < min(values) and max(values) < axis.high, values)
            self.assertTrue(2 <= len(ticks) <= 9, (values, ticks))
            for value, _ in ticks:
                self.assertTrue(9.9 <= axis.at(value) <= 300.1, (values, value))

    def test_Sizes_HavePowersOfTwo(self):
        axis = axes.size_axis([8, 1 << 30], 0, 100)
        self.assertEqual([label for _, label in axes.size_ticks(axis)],
                         ["8", "128", "2K", "32K", "512K", "8M", "128M"])
        self.assertEqual([label for _, label in axes.size_ticks(axes.size_axis([1024], 0, 100))],
                         ["1K"])

    def test_Ratios_AlwaysShowOne(self):
        for values in ([1.5, 2.5], [0.1, 0.2], [1, 1], [0.9, 30]):
            axis = axes.ratio_axis(values, 100, 0)
            self.assertTrue(0 <= axis.at(1) <= 100)
            self.assertTrue(0 <= axis.at(max(values)) <= axis.at(min(values)) <= 100)
            self.assertTrue(2 <= len(axes.ratio_ticks(axis)) <= 8)


if __name__ == "__main__":
    unittest.main()
