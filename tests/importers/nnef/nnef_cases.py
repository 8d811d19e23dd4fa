"""Documents of a few lines, one per validity rule, and the rule that each must break (None: it is valid)."""

FRAGMENTS = "extension KHR_enable_fragment_definitions;\n"
OPERATORS = "extension KHR_enable_operator_expressions;\n"
BOTH = FRAGMENTS + OPERATORS


def flat(body: str, header: str = "", shape: str = "[1,4,8,8]") -> str:
    """A graph whose input x has a shape and whose result is y."""
    return f"version 1.0;\n{header}graph g( x ) -> ( y )\n{{\n    x = external(shape = {shape});\n    {body}\n}}\n"


def operators(body: str, shape: str = "[1,4,8,8]") -> str:
    return flat(body, OPERATORS, shape)


def fragment(definition: str, body: str = "y = relu(x);") -> str:
    return flat(body, BOTH + definition + "\n")


def variable(name: str, shape: str, label: str = "") -> str:
    return f"{name} = variable(shape = {shape}, label = '{label or name}');"


def conv(attributes: str = "", filters: str = "[6,4,3,3]", bias: str = "", op: str = "conv") -> str:
    given = f"{variable('b', bias)} " if bias else ""
    inputs = "x, f, b" if bias else "x, f"
    return flat(
        f"{variable('f', filters)} {given}y = {op}({inputs}{', ' + attributes if attributes else ''});"
    )


def box(attributes: str) -> str:
    return flat(f"y = box(x, {attributes});")


PASS = "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = relu(x); }"
IDENTITY = "fragment same<?>( x: tensor<?> ) -> ( y: tensor<?> ) { y = copy(x); }"

CASES: list[tuple[str, str, str | None]] = [
    ("V001", flat("y = relu(x);").removeprefix("version 1.0;\n"), "V001"),
    ("V002", flat("y = relu(x);").replace("1.0", "1"), "V002"),
    ("V002", flat("y = relu(x);").replace("1.0", "2.0"), "V002"),
    ("V003", "version 1.0;\n", "V003"),
    (
        "V004",
        fragment(PASS).replace(
            BOTH, "extension KHR_enable_fragment_definitions KHR_enable_operator_expressions;"
        ),
        None,
    ),
    ("V005", fragment(PASS).replace(FRAGMENTS, ""), "V005"),
    ("V006", flat("y = x + 1.0;"), "V006"),
    ("V006", flat("y = x;"), "V006"),
    ("V006", flat("y = pow(x, (2.0));"), "V006"),
    ("V007", flat("y = relu(neg(x));"), "V007"),
    ("V007", operators("y = relu(neg(x));"), None),
    ("V008", flat("y = relu(x);", "extension VENDOR_magic;\n"), "V008"),
    ("V009", flat("1y = relu(x);"), "V009"),
    ("V010", flat("shape_of = relu(x);"), "V010"),
    ("V010", flat("y = add(x, yield);"), "V010"),
    ("V011", flat("v = variable(shape = [1], label = 'v\"); y = relu(x);"), "V011"),
    ("V012", flat("# any ; text { é\n    y = relu(x); # more"), None),
    ("V013", flat("t = add(x, 1.5e-3); y = mul(t, -2.0);"), None),
    ("V014", flat(r"v = variable(shape = [1], label = 'a\\b'); y = relu(x);"), None),
    ("V014", flat(r"v = variable(shape = [1], label = 'a\'b'); y = relu(x);"), "V057"),
    ("V015", operators("y = x + (1.0 if true && !false || false else 2.0);"), None),
    (
        "V016",
        operators("y = x + (1.0 if true and not_zero or false else 2.0);").replace("not_zero", "true"),
        None,
    ),
    ("V017", operators("y = reshape(x, shape = [1] + shape_of(x));"), None),
    ("V018", operators("y = transpose(x, axes = range_of(shape_of(x))[:length_of([1,2])]);"), None),
    (
        "V019",
        fragment(
            "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> )"
            " { v = variable(shape = [1], label = 'v'); y = x + v; }",
            "y = f(x);",
        ),
        None,
    ),
    (
        "V020",
        fragment(
            "fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = x + relu(external(shape = [1])); }"
        ),
        "V020",
    ),
    ("V021", fragment(PASS + PASS), "V021"),
    ("V021", fragment(PASS.replace("fragment f", "fragment relu")), "V021"),
    ("V022", fragment(PASS.replace("( x: tensor<scalar> )", "( x: tensor<scalar>, x: scalar )")), "V022"),
    ("V022", fragment(PASS.replace("( y: tensor<scalar> )", "( x: tensor<scalar> )")), "V022"),
    ("V022", flat("y = relu(x);").replace("( y )", "( y, y )"), "V022"),
    ("V023", fragment(PASS.replace("( x: tensor", "( a: scalar, x: tensor")), "V023"),
    ("V024", fragment(PASS.replace("( y: tensor<scalar> )", "( y: tensor<scalar>, n: integer )")), "V024"),
    ("V025", fragment(PASS.replace("x: tensor<scalar> )", "x: tensor<scalar>, n: scalar = 1 )")), "V025"),
    ("V025", fragment(PASS.replace("x: tensor<scalar> )", "x: tensor<scalar>, n: integer[] = [] )")), None),
    ("V026", fragment(PASS.replace("fragment f", "fragment f<?>")), "V026"),
    ("V027", fragment(IDENTITY.replace("same<?>", "same")), "V027"),
    ("V027", flat("y = copy<?>(x);"), "V027"),
    ("V028", fragment(PASS.replace("x: tensor<scalar> )", "x: (tensor<scalar>,integer) )")), "V028"),
    (
        "V029",
        fragment("fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { x = relu(x); y = x; }"),
        "V029",
    ),
    ("V030", fragment("fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { t = relu(x); }"), "V030"),
    (
        "V030",
        fragment("fragment f( x: tensor<scalar> ) -> ( y: tensor<scalar> ) { y = relu(x); y = neg(x); }"),
        "V030",
    ),
    ("V031", flat("y = add(x, t); t = relu(x);"), "V031"),
    ("V032", flat("t = relu(x); t = neg(x); y = relu(t);"), "V032"),
    ("V033", flat("t = relu(x);"), "V033"),
    ("V034", "version 1.0;\ngraph g( x ) -> ( y ) { y = constant(shape = [1], value = [1.0]); }", "V034"),
    (
        "V034",
        "version 1.0;\ngraph g( x ) -> ( y ) { x = constant(shape = [1], value = [1.0]); y = relu(x); }",
        "V034",
    ),
    ("V035", flat("t = external(shape = [1]); y = add(x, t);"), "V035"),
    ("V036", flat("t = split(x, axis = 1, ratios = [1,1]); y = relu(x);"), "V036"),
    ("V036", flat("[t, y] = split(x, axis = 1, ratios = [1,1]);"), None),
    ("V036", operators("n = 3; y = relu(x);"), "V036"),
    ("V037", flat("y = bogus(x);"), "V037"),
    ("V038", flat("y = relu(x, x);"), "V038"),
    ("V039", flat("y = box(x);"), "V039"),
    ("V040", flat("y = add(x = x, x);"), "V040"),
    ("V041", flat("y = sum_reduce(x, [1]);"), "V041"),
    ("V042", flat("y = relu(x, z = x);").replace("relu(x,", "add(x,"), "V042"),
    ("V043", flat("y = sum_reduce(x, axes = [1], axes = [2]);"), "V043"),
    ("V044", flat("y = add(x, x = x);"), "V044"),
    ("V045", flat("y = leaky_relu(x, alpha = 1);"), "V045"),
    ("V045", flat("y = add(x, 1);"), "V045"),
    ("V045", operators("y = x * (2 * 1.5);"), "V045"),
    ("V046", flat("y = softmax(x, axes = ['1']);"), "V046"),
    ("V047", flat("t = gt(x, 0.0); y = add(x, t);"), "V047"),
    ("V048", flat("y = max(x, 0.5);"), None),
    ("V049", flat("y = box(x, size = [1,1,2,2], stride = [], padding = []);"), None),
    ("V050", flat("y = sum_reduce(x, axes = [1, 2.0]);"), "V050"),
    ("V051", operators("y = sum_reduce(x, axes = [1][3:] if false else [2]);"), None),
    ("V052", operators("y = sum_reduce(x, axes = [for i in [1,2], j in [1] yield i + j]);"), "V052"),
    ("V053", operators("y = sum_reduce(x, axes = [[1,2][2]]);"), "V053"),
    ("V053", operators("y = sum_reduce(x, axes = [1,2][1:3]);"), "V053"),
    ("V054", flat("y = relu(x);", shape="[1,0]"), "V054"),
    ("V054", flat("c = constant(shape = [-1], value = [1.0]); y = add(x, c);"), "V054"),
    ("V054", flat(variable("v", "[0]") + " y = add(x, v);"), "V054"),
    ("V055", flat("c = constant(shape = [1,4], value = [1.0, 2.0]); y = add(x, c);"), "V055"),
    ("V055", flat("c = constant(shape = [1,4], value = [1.0]); y = add(x, c);"), None),
    ("V056", flat("v = variable(shape = [1], label = ''); y = add(x, v);"), "V056"),
    ("V057", flat("v = variable(shape = [1], label = 'a b'); y = add(x, v);"), "V057"),
    ("V058", flat(variable("v", "[1]", "A/b") + variable("w", "[1,4]", "a/B") + " y = add(x, w);"), "V058"),
    ("V058", flat(variable("v", "[1,4]", "A/b") + variable("w", "[1,4]", "a/B") + " y = add(x, w);"), None),
    ("V059", flat(variable("v", "[8]") + " y = add(x, v);", shape="[1,8]"), None),
    ("V059", flat(variable("v", "[2,3]") + " y = add(x, v);"), "V059"),
    ("V059", flat(variable("v", "[8]") + " y = add(x, v);", shape="[2,8]"), "V059"),
    ("V060", flat(variable("v", "[1,4]") + " y = add(x, v);"), None),
    ("V061", flat("c = gt(x, 0.0); " + variable("v", "[1,3]") + " y = select(c, x, v);"), "V061"),
    ("V062", box("size = [1,1,3,3], border = 'wrap'"), "V062"),
    ("V063", conv("border = 'ignore'"), "V063"),
    (
        "V063",
        flat("i = argmax_pool(x, size = [1]); y = desample(x, i, size = [1], border = 'replicate');"),
        "V063",
    ),
    ("V064", conv("stride = [0,1]"), "V064"),
    ("V065", conv("dilation = [1,-1]"), "V065"),
    ("V066", box("size = [1,1,0,3]"), "V066"),
    ("V067", conv("padding = [(0,0),(0,0)]", "[6,4,9,9]"), "V067"),
    ("V067", conv("padding = [(0,0),(0,0)], dilation = [4,4]"), "V067"),
    ("V068", conv("padding = [(-1,0),(0,-1)]"), None),
    ("V069", conv("", "[6,4,3]"), "V069"),
    ("V070", conv("stride = [1]"), "V070"),
    ("V070", conv("padding = [(0,0),(0,0),(0,0)]"), "V070"),
    ("V070", conv("dilation = [1,1,1,1]"), "V070"),
    ("V071", conv("groups = -1"), "V071"),
    ("V072", conv("groups = 4", "[6,1,3,3]"), "V072"),
    ("V073", conv("", "[6,3,3,3]"), "V073"),
    ("V073", conv("groups = 2", "[6,2,3,3]"), None),
    ("V073", conv("groups = 0", "[8,1,3,3]"), None),
    ("V074", conv("", bias="[1,5]"), "V074"),
    ("V075", conv("", bias="[6]"), "V075"),
    ("V075", conv("", bias="[1,6,1,1]"), None),
    ("V076", conv("stride = [2,2], output_shape = [1,4,18,18]", "[4,4,3,3]", op="deconv"), "V076"),
    ("V076", conv("stride = [2,2], output_shape = [1,4,15,16]", "[4,4,3,3]", op="deconv"), None),
    ("V077", box("size = [1,1,3,3], padding = [(1,1),(1,1)]"), "V077"),
    ("V078", flat("i = argmax_pool(x, size = [1,1,2,2]); y = sample(x, i, size = [1,1,2,2]);"), None),
    (
        "V078",
        flat("i = argmax_pool(x, size = [1,1,2,2], stride = [1,1,2,2]); y = sample(x, i, size = [1,1,2,2]);"),
        "V078",
    ),
    ("V079", flat("y = area_downsample(x, factor = [3,2]);"), "V079"),
    ("V079", flat("y = nearest_downsample(x, factor = [2]);"), "V079"),
    ("V080", flat("y = multilinear_upsample(x, factor = [2,2], method = 'cubic');"), "V080"),
    ("V081", flat("y = max_reduce(x, axes = [2,2]);"), "V081"),
    ("V082", flat("y = max_reduce(x, axes = [4]);"), "V082"),
    ("V082", flat("y = max_reduce(x, axes = [-1]);"), "V082"),
    ("V083", flat("y = reshape(x, shape = [1,3]);"), "V083"),
    ("V083", flat("y = reshape(x, shape = [7,-1]);"), "V083"),
    ("V084", flat("y = reshape(x, shape = [-1,-1]);"), "V084"),
    ("V084", flat("y = reshape(x, shape = [-2]);"), "V084"),
    ("V085", flat("y = squeeze(x, axes = [1]);"), "V085"),
    ("V086", flat("y = unsqueeze(x, axes = [5]);"), "V086"),
    ("V087", flat("y = transpose(x, axes = [0,2]);"), "V087"),
    ("V087", flat("y = transpose(x, axes = [1,0]);"), None),
    ("V088", flat("[y, z] = split(x, axis = 1, ratios = [1,2]);"), "V088"),
    ("V088", flat("[y, z] = split(x, axis = 1, ratios = [4,0]);"), "V088"),
    ("V089", flat(variable("v", "[1,4]") + " y = concat([x, v], axis = 1);"), "V089"),
    ("V090", flat(variable("v", "[1,4,8,7]") + " y = concat([x, v], axis = 1);"), "V090"),
    ("V091", flat("y = concat([x, x], axis = 4);"), "V091"),
    ("V092", flat("y = slice(x, axes = [1,2], begin = [0], end = [1]);"), "V092"),
    ("V093", flat("y = slice(x, axes = [1], begin = [0], end = [5]);"), "V093"),
    ("V094", flat("y = slice(x, axes = [1], begin = [2], end = [2]);"), "V094"),
    (
        "V095",
        flat(
            variable("r", "[5,4]") + " i = variable<integer>(shape = [5,1], label = 'i');"
            " y = max_roi_pool(x, r, i, output_size = [2,2]);"
        ),
        None,
    ),
    (
        "V095",
        flat(
            variable("r", "[5,4]") + " i = variable<integer>(shape = [5], label = 'i');"
            " y = max_roi_pool(x, r, i, output_size = [2,2]);"
        ),
        "V095",
    ),
    ("V096", flat(variable("v", "[8,8]") + " y = matmul(x, v);"), "V096"),
    ("V097", flat(variable("v", "[1,4,7,8]") + " y = matmul(x, v);"), "V097"),
    ("V098", flat("t = relu(x); y = update(t, x);"), "V098"),
    ("V099", flat(variable("v", "[1,4]") + " y = update(v, x);"), "V099"),
    ("V100", flat(variable("v", "[1,4,8,8]") + " t = update(v, x); y = update(v, t);"), "V100"),
    ("V100", flat(variable("v", "[1,4,8,8]") + " t = update(v, x); y = add(v, t);"), None),
    *(
        ("V101", flat(f"y = {name}(x);"), "V037")
        for name in (
            "pad",
            "tile",
            "gather",
            "cast",
            "gelu",
            "silu",
            "sin",
            "all_reduce",
            "min_max_linear_quantize",
        )
    ),
    ("V102", flat("y = elu(x, alpha = 1.0);"), "V038"),
]

QUANTIZATION: list[tuple[str, str, str | None]] = [
    ("V103", '"z": linear_quantize(min = 0.0, max = 1.0, bits = 8);', "V103"),
    ("V104", '"x": linear_quantize(min = 0.0, bits = 8);', "V104"),
    ("V105", '"x": relu(min = 0.0, max = 1.0, bits = 8);', "V105"),
    ("V106", '"x": linear_quantize(1.0, min = 0.0, max = 1.0, bits = 8);', "V106"),
    ("V106", '"x": linear_quantize(x = 1.0, min = 0.0, max = 1.0, bits = 8);', "V106"),
    ("V107", '"x": linear_quantize(min = 0.0, max = 1.0, bits = 8)', "V107"),
    ("V107", "x: linear_quantize(min = 0.0, max = 1.0, bits = 8);", "V107"),
    ("V108", "'x': linear_quantize(min = -1.0, max = 2.0 ^ 3.0, bits = 4 + 4); # comment", None),
    ("V045", '"x": linear_quantize(min = 0, max = 1.0, bits = 8);', "V045"),
    ("V031", '"x": linear_quantize(min = low, max = 1.0, bits = 8);', "V031"),
]
