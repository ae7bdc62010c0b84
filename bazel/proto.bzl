"""Python modules from .proto files."""

load(":python.bzl", "py_library")

def py_proto(name, src, imports = [], visibility = None):
    """Compiles proto/<stem>.proto into the importable tileops.proto.<stem>_pb2.

    Expands to a genrule that runs protoc (:<stem>_pb2.py, and :<stem>_pb2.pyi for type checkers; never committed) and
    the py_library <name> around the module.

    Args:
      name: name of the py_library.
      src: the .proto file, in the calling package.
      imports: the py_proto targets of this package whose files it imports; each is named after its file, <stem>_py.
      visibility: of the library.
    """
    if not src.endswith(".proto"):
        fail("py_proto %s: src %s is no .proto file" % (name, src))
    package = native.package_name()
    module = src[:-len(".proto")] + "_pb2.py"
    stub = module + "i"
    native.genrule(
        name = name + "_protoc",
        srcs = [src] + [target[:-len("_py")] + ".proto" for target in imports],
        outs = [
            module,
            stub,
        ],
        # protoc writes below the import path of the file, tileops/<package>/.
        cmd = " && ".join([
            "out=$$(mktemp -d)",
            "$(execpath //bazel:protoc) -Itileops/{package}={package} --python_out=$$out --pyi_out=$$out " +
            "tileops/{package}/{src}",
            "mv $$out/tileops/{package}/{module} $$out/tileops/{package}/{stub} $(RULEDIR)",
            "rm -r $$out",
        ]).format(package = package, src = src, module = module, stub = stub),
        message = "Compiling " + src,
        tools = ["//bazel:protoc"],
        visibility = visibility,
    )
    py_library(
        name = name,
        srcs = [module],
        visibility = visibility,
        deps = [":" + target for target in imports] + ["//bazel/pip:protobuf"],
    )
