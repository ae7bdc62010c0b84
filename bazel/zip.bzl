"""One file that runs a program on a machine without Bazel, with that machine's own torch and other packages."""

def _for_machine_with_packages_impl(_settings, _attr):
    return {"//command_line_option:platforms": "//bazel/pip:machine_with_packages"}

_for_machine_with_packages = transition(
    implementation = _for_machine_with_packages_impl,
    inputs = [],
    outputs = ["//command_line_option:platforms"],
)

def _python_zip_impl(ctx):
    # A transition makes a list of the one label.
    program = ctx.attr.binary[0][DefaultInfo]
    arguments = ctx.actions.args()
    arguments.add("--out", ctx.outputs.zip)
    arguments.add("--main", ctx.attr.main)
    arguments.add("--launcher", ctx.file._launcher)
    files = []
    for file in program.default_runfiles.files.to_list():
        # Files of other repositories are the interpreter's: packages are left out.
        if not file.short_path.startswith("../") and file != program.files_to_run.executable:
            files.append(file)
            arguments.add("%s/%s=%s" % (ctx.workspace_name, file.short_path, file.path))
    arguments.use_param_file("@%s", use_always = True)
    arguments.set_param_file_format("multiline")
    ctx.actions.run(
        outputs = [ctx.outputs.zip],
        inputs = files + [ctx.file._launcher],
        executable = ctx.executable._write_zip,
        arguments = [arguments],
        mnemonic = "PythonZip",
        progress_message = "Zipping %s" % ctx.label,
    )
    return [DefaultInfo(files = depset([ctx.outputs.zip]), runfiles = ctx.runfiles([ctx.outputs.zip]))]

python_zip = rule(
    implementation = _python_zip_impl,
    doc = "Builds <name>.zip from a py_binary and all that it needs but third-party packages. " +
          "`python3 <name>.zip FLAGS` runs it with the packages of that Python.",
    attrs = {
        "binary": attr.label(
            mandatory = True,
            cfg = _for_machine_with_packages,
            doc = "The py_binary.",
        ),
        "main": attr.string(mandatory = True, doc = "Module to run, as in tileops.perf.bench."),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
        "_launcher": attr.label(default = "//bazel:zip_launcher.py", allow_single_file = True),
        "_write_zip": attr.label(default = "//bazel:write_zip", cfg = "host", executable = True),
    },
    outputs = {"zip": "%{name}.zip"},
)
