"""Dependencies that must not be, held by genquery."""

load(":python.bzl", "py_test")

_MAIN = "//bazel:layering_main.py"

def _absolute(label):
    """The label in full: //folder:target."""
    if label.startswith(":"):
        return "//" + native.package_name() + label
    if ":" not in label and not label.endswith("/..."):
        return label + ":" + label.split("/")[-1]
    return label

def _pattern(forbidden):
    """The query for one forbidden label or, as in //ops/..., everything of a folder and below."""
    if forbidden.endswith("/..."):
        return "filter('^%s[/:]', $found)" % forbidden[:-len("/...")]
    return "filter('^%s$', $found)" % forbidden

def forbidden_deps(
        name,
        targets,
        forbidden,
        because,
        allowed = [],
        tools = True,
        directly = False,
        size = "small",
        **kwargs):
    """Tests that no target of `targets` depends on anything of `forbidden`.

    Expands to a genquery whose result must be empty, and the py_test <name> that says so or shows the way from one
    to the other.

    Args:
      name: name of the test.
      targets: labels whose dependencies are looked through; all that is named has to be visible here.
      forbidden: labels, or folders as in //ops/..., that must not be among them.
      because: why, in words; part of the failure's message.
      allowed: labels that may be among them all the same.
      tools: whether what runs at build time (a genrule's tools) counts.
      directly: whether only direct dependencies count.
      size: as of py_test.
      **kwargs: anything else that py_test takes.
    """
    targets = [_absolute(label) for label in targets]
    forbidden = [_absolute(label) for label in forbidden]
    allowed = [_absolute(label) for label in allowed]
    found = "deps(set(%s)%s)" % (" ".join(targets), ", 1" if directly else "")
    wrong = " union ".join([_pattern(label) for label in forbidden])
    expression = "let found = kind('rule$', {found}) in ({wrong}) except set({allowed})".format(
        allowed = " ".join(allowed),
        found = found,
        wrong = wrong,
    )
    native.genquery(
        name = name + "_query",
        testonly = True,
        expression = "somepath(set({targets}), {expression})".format(
            targets = " ".join(targets),
            expression = expression,
        ),
        opts = [] if tools else ["--notool_deps"],
        # A label that does not exist is a mistake in the table, and fails here.
        scope = targets + allowed + [label for label in forbidden if not label.endswith("/...")],
        visibility = ["//visibility:private"],
    )
    py_test(
        name = name,
        size = size,
        srcs = [_MAIN],
        args = ["$(rootpath :%s_query)" % name, "'%s'" % because.replace("'", "'\\''")],
        data = [":%s_query" % name],
        main = _MAIN,
        **kwargs
    )
