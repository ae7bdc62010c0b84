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

def _place(place):
    """The query for the targets of a place of `floors`."""
    if place.endswith("/..."):
        return "filter('^//%s[/:]', $all)" % place[:-len("/...")]
    if ":" in place:
        return "filter('^//%s$', $all)" % place
    return "filter('^//%s:', $all)" % place

def floors(name, floors, tops, folders, because, size = "small", **kwargs):
    """Tests that dependencies lead down the floors of a house, never up or to a neighbour on the same floor.

    So no two places depend on each other, by whatever way.

    Args:
      name: name of the test.
      floors: from the lowest to the highest, the places of each: a folder, as in "perf/runs"; a folder and all below, as
        in "ops/kernels/..."; or targets of a folder by a regular expression, as in "ops:(base|errors)".
      tops: labels from which everything is reached; what they run at build time does not count.
      folders: names of the top folders all of whose targets must be in some place.
      because: why, in words; part of the failure's message.
      size: as of py_test.
      **kwargs: anything else that py_test takes.
    """
    tops = [_absolute(label) for label in tops]
    everything = "let all = kind('rule$', deps(set({}))) in ".format(" ".join(tops))
    queries = {
        "homeless": "filter('^//({})[/:]', $all) except ({})".format(
            "|".join(folders),
            " union ".join([_place(place) for floor in floors for place in floor]),
        ),
    }
    for number, floor in enumerate(floors):
        above = [place for higher in floors[number + 1:] for place in higher]
        for position, place in enumerate(floor):
            others = above + [other for other in floor if other != place]
            if others:
                queries["%d_%d" % (number, position)] = "somepath({}, {})".format(
                    _place(place),
                    " union ".join([_place(other) for other in others]),
                )
    for suffix, expression in queries.items():
        native.genquery(
            name = name + "_" + suffix,
            testonly = True,
            expression = everything + expression,
            opts = ["--notool_deps"],
            scope = tops,
            visibility = ["//visibility:private"],
        )
    results = [":%s_%s" % (name, suffix) for suffix in queries]
    py_test(
        name = name,
        size = size,
        srcs = [_MAIN],
        args = ["$(rootpath %s)" % result for result in results] + ["'%s'" % because.replace("'", "'\\''")],
        data = results,
        main = _MAIN,
        **kwargs
    )
