"""Op modules generated from the manifest."""

load(":python.bzl", "py_library")

# Has no manifest among its own files: those would make every module depend on every family.
_EMIT = "//codegen:emit_tool"

def op_module(name, specs, visibility = None):
    """Generates the module of one family of ops from its manifest files.

    Expands to a genrule that emits <name>.py from `specs` alone, so that an edit of one family's YAML rebuilds that
    module and no other, and the py_library <name> around it. A defect of the manifest fails the genrule with its
    file and line.

    Args:
      name: the family; the module is tileops.<package>.<name>.
      specs: the family's manifest files: <name>.yaml, or shards of it named <name>_<shard>.yaml.
      visibility: of the library.
    """
    native.genrule(
        name = name + "_emit",
        srcs = specs,
        outs = [name + ".py"],
        cmd = "$(execpath %s) %s --out=$@" % (_EMIT, " ".join(["--spec=$(execpath %s)" % spec for spec in specs])),
        message = "Emitting ops of " + name,
        tools = [_EMIT],
        visibility = ["//visibility:private"],
    )
    py_library(
        name = name,
        srcs = [name + ".py"],
        visibility = visibility,
        deps = [
            "//manifest/language:primitives",
            "//ops:runtime",
        ],
    )

def family_index(name, families, visibility = None):
    """Generates families.py: FAMILIES, the names of the generated modules.

    Args:
      name: name of the py_library.
      families: names of op_module targets of this package.
      visibility: of the library.
    """
    lines = ['"""The families of ops that have a generated module. Generated: do not edit."""', "", "FAMILIES = ("]
    lines += ['    "%s",' % family for family in sorted(families)] + [")"]
    native.genrule(
        name = name + "_emit",
        outs = ["families.py"],
        cmd = "cat >$@ <<'END'\n%s\nEND" % "\n".join(lines),
        visibility = ["//visibility:private"],
    )
    py_library(
        name = name,
        srcs = ["families.py"],
        visibility = visibility,
    )
