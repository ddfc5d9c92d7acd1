#!/usr/bin/env python3
"""Writes a C++ source that holds files: embed.py OUTPUT HEADER NAMESPACE NAME=FILE..."""
import pathlib
import sys

output, header, namespace, *pairs = sys.argv[1:]
lines = [f'#include "{header}"', "", f"namespace {namespace} {{", ""]
for pair in pairs:
    name, path = pair.split("=", 1)
    data = pathlib.Path(path).read_bytes()
    lines.append(f"static constexpr unsigned char {name}_bytes[] = {{")
    lines += [",".join(map(str, data[at:at + 24])) + "," for at in range(0, len(data), 24)]
    lines.append("};")
    # A cast from unsigned char to char is what [expr.reinterpret.cast] allows; it can't be constexpr.
    lines.append(f"const std::string_view {name}(reinterpret_cast<const char*>({name}_bytes), sizeof({name}_bytes));")
lines += ["", f"}}  // namespace {namespace}", ""]
pathlib.Path(output).write_text("\n".join(lines))
