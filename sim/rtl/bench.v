// The accelerator with a register at every input.
//
// Logic behind the inputs of the top module is evaluated at every call, twice per clock cycle; behind registers
// it is evaluated once, after the edge. The harness sets what the inputs are to be after the next edge.
module bench #(
    parameter W = `BUS_BYTES,
    parameter I = `ID_BITS,
    parameter A = `ADDRESS_BITS
) (
    input clk,
    input rst,
`ifdef MUTANTS
    input [15:0] watch_mutants,
    input [`MUTANTS-1:0] chosen_mutants,
    output [`MUTANTS-1:0] active_mutants,
`endif
`ifdef PROBE
    output [`PROBE-1:0] probe,
`endif
    output irq,
    input [11:0] s_axil_awaddr,
    input s_axil_awvalid,
    output s_axil_awready,
    input [31:0] s_axil_wdata,
    input [3:0] s_axil_wstrb,
    input s_axil_wvalid,
    output s_axil_wready,
    output [1:0] s_axil_bresp,
    output s_axil_bvalid,
    input s_axil_bready,
    input [11:0] s_axil_araddr,
    input s_axil_arvalid,
    output s_axil_arready,
    output [31:0] s_axil_rdata,
    output [1:0] s_axil_rresp,
    output s_axil_rvalid,
    input s_axil_rready,
    output [I-1:0] m_axi_arid,
    output [A-1:0] m_axi_araddr,
`ifdef AXI_ATTRIBUTES
    output [3:0] m_axi_arcache,
    output [2:0] m_axi_arprot,
    output [3:0] m_axi_awcache,
    output [2:0] m_axi_awprot,
`endif
    output [7:0] m_axi_arlen,
    output [2:0] m_axi_arsize,
    output [1:0] m_axi_arburst,
    output m_axi_arvalid,
    input m_axi_arready,
    input [I-1:0] m_axi_rid,
    input [8*W-1:0] m_axi_rdata,
    input [1:0] m_axi_rresp,
    input m_axi_rlast,
    input m_axi_rvalid,
    output m_axi_rready,
    output [I-1:0] m_axi_awid,
    output [A-1:0] m_axi_awaddr,
    output [7:0] m_axi_awlen,
    output [2:0] m_axi_awsize,
    output [1:0] m_axi_awburst,
    output m_axi_awvalid,
    input m_axi_awready,
    output [8*W-1:0] m_axi_wdata,
    output [W-1:0] m_axi_wstrb,
    output m_axi_wlast,
    output m_axi_wvalid,
    input m_axi_wready,
    input [I-1:0] m_axi_bid,
    input [1:0] m_axi_bresp,
    input m_axi_bvalid,
    output m_axi_bready
);
    reg r_rst = 1;
    reg [11:0] r_awaddr, r_araddr;
    reg [31:0] r_wdata;
    reg [3:0] r_wstrb;
    reg r_awvalid, r_wvalid, r_bready, r_arvalid, r_rready;
    reg r_m_arready, r_m_rlast, r_m_rvalid, r_m_awready, r_m_wready, r_m_bvalid;
    reg [I-1:0] r_m_rid, r_m_bid;
    reg [1:0] r_m_rresp, r_m_bresp;
    reg [8*W-1:0] r_m_rdata;
`ifdef MUTANTS
    reg [15:0] r_watch = 0;
    reg [`MUTANTS-1:0] r_chosen = 0;
    always @(posedge clk) r_watch <= watch_mutants;
    always @(posedge clk) r_chosen <= chosen_mutants;
`endif

    always @(posedge clk) begin
        r_rst <= rst;
        r_awaddr <= s_axil_awaddr;
        r_awvalid <= s_axil_awvalid;
        r_wdata <= s_axil_wdata;
        r_wstrb <= s_axil_wstrb;
        r_wvalid <= s_axil_wvalid;
        r_bready <= s_axil_bready;
        r_araddr <= s_axil_araddr;
        r_arvalid <= s_axil_arvalid;
        r_rready <= s_axil_rready;
        r_m_arready <= m_axi_arready;
        r_m_rid <= m_axi_rid;
        r_m_rdata <= m_axi_rdata;
        r_m_rresp <= m_axi_rresp;
        r_m_rlast <= m_axi_rlast;
        r_m_rvalid <= m_axi_rvalid;
        r_m_awready <= m_axi_awready;
        r_m_wready <= m_axi_wready;
        r_m_bid <= m_axi_bid;
        r_m_bresp <= m_axi_bresp;
        r_m_bvalid <= m_axi_bvalid;
    end

    tosaic accelerator (
`ifdef MUTANTS
        .watch_mutants(r_watch),
        .chosen_mutants(r_chosen),
        .active_mutants(active_mutants),
`endif
`ifdef PROBE
        .probe(probe),
`endif
        .clk(clk),
        .rst(r_rst),
        .irq(irq),
        .idle(),
        .s_axil_awaddr(r_awaddr),
        .s_axil_awprot(3'd0),
        .s_axil_awvalid(r_awvalid),
        .s_axil_awready(s_axil_awready),
        .s_axil_wdata(r_wdata),
        .s_axil_wstrb(r_wstrb),
        .s_axil_wvalid(r_wvalid),
        .s_axil_wready(s_axil_wready),
        .s_axil_bresp(s_axil_bresp),
        .s_axil_bvalid(s_axil_bvalid),
        .s_axil_bready(r_bready),
        .s_axil_araddr(r_araddr),
        .s_axil_arprot(3'd0),
        .s_axil_arvalid(r_arvalid),
        .s_axil_arready(s_axil_arready),
        .s_axil_rdata(s_axil_rdata),
        .s_axil_rresp(s_axil_rresp),
        .s_axil_rvalid(s_axil_rvalid),
        .s_axil_rready(r_rready),
`ifdef AXI_ATTRIBUTES
        .m_axi_arcache(m_axi_arcache),
        .m_axi_arprot(m_axi_arprot),
        .m_axi_awcache(m_axi_awcache),
        .m_axi_awprot(m_axi_awprot),
`endif
        .m_axi_arid(m_axi_arid),
        .m_axi_araddr(m_axi_araddr),
        .m_axi_arlen(m_axi_arlen),
        .m_axi_arsize(m_axi_arsize),
        .m_axi_arburst(m_axi_arburst),
        .m_axi_arvalid(m_axi_arvalid),
        .m_axi_arready(r_m_arready),
        .m_axi_rid(r_m_rid),
        .m_axi_rdata(r_m_rdata),
        .m_axi_rresp(r_m_rresp),
        .m_axi_rlast(r_m_rlast),
        .m_axi_rvalid(r_m_rvalid),
        .m_axi_rready(m_axi_rready),
        .m_axi_awid(m_axi_awid),
        .m_axi_awaddr(m_axi_awaddr),
        .m_axi_awlen(m_axi_awlen),
        .m_axi_awsize(m_axi_awsize),
        .m_axi_awburst(m_axi_awburst),
        .m_axi_awvalid(m_axi_awvalid),
        .m_axi_awready(r_m_awready),
        .m_axi_wdata(m_axi_wdata),
        .m_axi_wstrb(m_axi_wstrb),
        .m_axi_wlast(m_axi_wlast),
        .m_axi_wvalid(m_axi_wvalid),
        .m_axi_wready(r_m_wready),
        .m_axi_bid(r_m_bid),
        .m_axi_bresp(r_m_bresp),
        .m_axi_bvalid(r_m_bvalid),
        .m_axi_bready(m_axi_bready)
    );
endmodule
