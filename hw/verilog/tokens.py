"""The tokens of the Verilog that Yosys writes: enough of the language to rename, to count and to substitute."""

import re
from collections.abc import Callable, Iterator

_TOKEN = re.compile(
    r"""
    (?P<comment>/\*.*?\*/|//[^\n]*)
    |(?P<string>"(?:\\.|[^"\\])*")
    |(?P<number>\d+'s?[bodh][0-9a-fxz?_]+|\d[\d_]*)
    |(?P<escaped>\\\S+\s)
    |(?P<system>\$[a-z]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_$]*)
    """,
    re.VERBOSE | re.DOTALL,
)

NAME = r"(?:\\\S+\s|[A-Za-z_][A-Za-z0-9_$]*)"
"""An identifier, with the space that an escaped one ends with."""

KEYWORDS = frozenset(
    """
    alias always always_comb always_ff always_latch and assert assign assume automatic before begin bind
    bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle checker class clocking
    cmos config const constraint context continue cover covergroup coverpoint cross deassign default
    defparam design disable dist do edge else end endcase endchecker endclass endclocking endconfig
    endfunction endgenerate endgroup endinterface endmodule endpackage endprimitive endprogram
    endproperty endsequence endspecify endtable endtask enum event eventually expect export extends
    extern final first_match for force foreach forever fork forkjoin function generate genvar global
    highz0 highz1 if iff ifnone ignore_bins illegal_bins implements implies import incdir include initial
    inout input inside instance int integer interconnect interface intersect join join_any join_none
    large let liblist library local localparam logic longint macromodule matches medium modport module
    nand negedge nettype new nexttime nmos nor noshowcancelled not notif0 notif1 null or output package
    packed parameter pmos posedge primitive priority program property protected pull0 pull1 pulldown
    pullup pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real
    realtime ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1
    s_always s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal
    showcancelled signed small soft solve specify specparam static string strong strong0 strong1 struct
    super supply0 supply1 sync_accept_on sync_reject_on table tagged task this throughout time
    timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef union
    unique unique0 unsigned until until_with untyped use uwire var vectored virtual void wait wait_order
    wand weak weak0 weak1 while wildcard wire with within wor xnor xor
    """.split()
)
"""Reserved words of Verilog and SystemVerilog: no name of ours may be one."""


def plain(token: str) -> str:
    """An identifier without the backslash and the space of an escaped one."""
    return token[1:].rstrip() if token.startswith("\\") else token


def identifiers(text: str) -> Iterator[str]:
    """Every identifier that is not a reserved word, unescaped, in order."""
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "escaped" or (match.lastgroup == "name" and match[0] not in KEYWORDS):
            yield plain(match[0])


def substitute(text: str, replace: Callable[[str], str]) -> str:
    """`text` with every identifier replaced."""

    def one(match: re.Match) -> str:
        if match.lastgroup == "escaped" or (match.lastgroup == "name" and match[0] not in KEYWORDS):
            return replace(plain(match[0]))
        return match[0]

    return _TOKEN.sub(one, text)


def spell(name: str) -> str:
    """An identifier as it stands in a text: escaped where it must be."""
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", name) and name not in KEYWORDS else f"\\{name} "


def closed(expression: str) -> str:
    """Without spaces at the ends, but for the one that an escaped name needs."""
    text = expression.strip()
    return f"{text} " if re.search(r"\\\S+$", text) else text
