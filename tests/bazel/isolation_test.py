"""A target sees the packages in its deps alone: this one names pyyaml."""

import importlib.util
import sys
import unittest


class IsolationTest(unittest.TestCase):
    def test_a_dependency_is_there(self):
        import yaml

        self.assertEqual(yaml.safe_load("a: 1"), {"a": 1})

    def test_others_are_not(self):
        # pip is in the site-packages of the interpreter; the rest are locked, and dependencies of other targets.
        for name in ("pip", "torch", "numpy", "pytest", "rich", "google.protobuf"):
            with self.subTest(name), self.assertRaises(ImportError):
                importlib.import_module(name)

    def test_the_folder_of_the_main_file_is_not_on_the_path(self):
        self.assertIsNone(importlib.util.find_spec("isolation_test"))
        self.assertFalse([entry for entry in sys.path if entry.endswith("site-packages")])


if __name__ == "__main__":
    unittest.main()
