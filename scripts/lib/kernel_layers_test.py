# SPDX-License-Identifier: GPL-2.0
import unittest

import kernel_layers

LOW = "int low(struct x *p)\n{\n\treturn p->n;\n}\n\nstatic int own(void)\n{\n\treturn 0;\n}\n"
HIGH = "const struct kind high_row = { .n = low };\n\nint high(void)\n{\n\treturn low(NULL);\n}\n"


class LayersTest(unittest.TestCase):
    def faults(self, low, high=HIGH):
        return list(kernel_layers.faults(["low", "high"], {"low": low, "high": high}))

    def test_a_file_uses_lower_files_only(self):
        self.assertEqual(self.faults(LOW), [])

    def test_a_call_of_a_higher_layer_is_named(self):
        self.assertEqual(self.faults(LOW + "int f(void)\n{\n\treturn high();\n}\n"),
                         ["low.c uses high of high.c, which is a higher layer"])

    def test_an_object_of_a_higher_layer_is_named(self):
        self.assertEqual(self.faults(LOW + "static const void *p = &high_row;\n"),
                         ["low.c uses high_row of high.c, which is a higher layer"])

    def test_comments_strings_and_tags_do_not_count(self):
        self.assertEqual(self.faults(LOW + '/* high() */\nchar *s = "high";\nstruct high *h;\n'), [])

    def test_each_file_is_in_the_table(self):
        self.assertEqual(list(kernel_layers.faults(["a"], {"b": ""})),
                         ["a: no such file", "b: not in the table of layers"])


if __name__ == "__main__":
    unittest.main()
