// Runs one program on the module `tosaic` and writes external memory back to a file. Plain Verilog-2005, but for $fatal:
// works in Icarus Verilog and Verilator, and is an example of the bus and of a run for a driver. Neither this file nor
// the modules have a timescale (IEEE 1364-2005, 19.8): all have one, or none.
//
//   +memory=FILE           external memory before the run, one byte per line in hexadecimal ($readmemh)
//   +expected=FILE         bytes that are compared after the run, at their @addresses: 100 and the byte, in hexadecimal
//   +result=FILE           external memory after the run, in the form of +memory
//   +program_address=N +program_bytes=N
//   +latency=N             cycles from a read's address to its first beat (default 8)
//   +max_cycles=N          give up then (default 1000000)
//
// What is not given is that of the parameters, which `tosaic verilog --network` sets. It ends with a line "cycles N", or
// with what went wrong; with expected bytes, its last line begins with PASS or FAIL. What is no PASS ends with $fatal,
// so that the simulator's exit code is not 0.
module tosaic_bench;
  parameter WORD_BYTES = 16;           // of the configuration: columns
  parameter MEMORY_BYTES = 1 << 20;    // of the window; a multiple of WORD_BYTES
  parameter ADDRESS_BITS = 32;         // of the configuration
  parameter MEM_BASE = 64'h1000_0000;  // bus address of the window
  parameter PROGRAM_ADDRESS = 0;
  parameter PROGRAM_BYTES = 0;
  parameter MAX_CYCLES = 1000000;
  parameter MEMORY_FILE = "";
  parameter EXPECTED_FILE = "";

  reg clk = 0, rst = 1;
  always #5 clk = ~clk;

  reg [11:0] awaddr = 0, araddr = 0;
  reg [31:0] wdata = 0;
  reg awvalid = 0, wvalid = 0, arvalid = 0;
  wire awready, wready, bvalid, arready, rvalid, irq;
  wire [1:0] bresp, rresp;
  wire [31:0] rdata;

  wire [1:0] m_arid, m_awid;
  wire [ADDRESS_BITS-1:0] m_araddr, m_awaddr;
  wire [7:0] m_arlen, m_awlen;
  wire m_arvalid, m_rready, m_awvalid, m_wvalid, m_wlast, m_bready;
  wire [8*WORD_BYTES-1:0] m_wdata;
  wire [WORD_BYTES-1:0] m_wstrb;
  reg m_rvalid = 0, m_rlast = 0, m_bvalid = 0;
  reg [1:0] m_rid = 0, m_bid = 0;
  reg [8*WORD_BYTES-1:0] m_rdata = 0;

  // External memory and the bursts under way.
  reg [7:0] memory [0:MEMORY_BYTES-1];
  reg [8:0] expected [0:MEMORY_BYTES-1];  // bit 8: compared
  reg reading = 0, writing = 0;
  reg [31:0] read_at = 0, write_at = 0;
  reg [7:0] beats_left = 0;
  reg [1:0] read_id = 0, write_id = 0;
  integer latency, wait_cycles = 0, lane;

  tosaic dut (
    .clk(clk), .rst(rst), .irq(irq), .idle(),
    .s_axil_awaddr(awaddr), .s_axil_awprot(3'd0), .s_axil_awvalid(awvalid), .s_axil_awready(awready),
    .s_axil_wdata(wdata), .s_axil_wstrb(4'hf), .s_axil_wvalid(wvalid), .s_axil_wready(wready),
    .s_axil_bresp(bresp), .s_axil_bvalid(bvalid), .s_axil_bready(1'b1),
    .s_axil_araddr(araddr), .s_axil_arprot(3'd0), .s_axil_arvalid(arvalid), .s_axil_arready(arready),
    .s_axil_rdata(rdata), .s_axil_rresp(rresp), .s_axil_rvalid(rvalid), .s_axil_rready(1'b1),
    .m_axi_arid(m_arid), .m_axi_araddr(m_araddr), .m_axi_arlen(m_arlen), .m_axi_arsize(), .m_axi_arburst(),
    .m_axi_arvalid(m_arvalid), .m_axi_arready(!reading), .m_axi_rid(m_rid), .m_axi_rdata(m_rdata),
    .m_axi_rresp(2'd0), .m_axi_rlast(m_rlast), .m_axi_rvalid(m_rvalid), .m_axi_rready(m_rready),
    .m_axi_awid(m_awid), .m_axi_awaddr(m_awaddr), .m_axi_awlen(m_awlen), .m_axi_awsize(), .m_axi_awburst(),
    .m_axi_awvalid(m_awvalid), .m_axi_awready(!writing), .m_axi_wdata(m_wdata), .m_axi_wstrb(m_wstrb),
    .m_axi_wlast(m_wlast), .m_axi_wvalid(m_wvalid), .m_axi_wready(writing), .m_axi_bid(m_bid),
    .m_axi_bresp(2'd0), .m_axi_bvalid(m_bvalid), .m_axi_bready(m_bready)
  );

  // External memory: one read burst and one write burst at a time.
  always @(posedge clk) begin
    if (m_rvalid && m_rready) m_rvalid <= 0;
    if (!reading && m_arvalid) begin
      reading <= 1;
      read_id <= m_arid;
      read_at <= (m_araddr - MEM_BASE) & ~(WORD_BYTES - 1);
      beats_left <= m_arlen;
      wait_cycles <= latency;
    end else if (reading && wait_cycles != 0) begin
      wait_cycles <= wait_cycles - 1;
    end else if (reading && (!m_rvalid || m_rready)) begin
      m_rvalid <= 1;
      m_rid <= read_id;
      m_rlast <= beats_left == 0;
      for (lane = 0; lane < WORD_BYTES; lane = lane + 1) m_rdata[8*lane +: 8] <= memory[read_at + lane];
      read_at <= read_at + WORD_BYTES;
      beats_left <= beats_left - 1;
      if (beats_left == 0) reading <= 0;
    end
  end

  always @(posedge clk) begin
    if (m_bvalid && m_bready) m_bvalid <= 0;
    if (!writing && m_awvalid) begin
      writing <= 1;
      write_id <= m_awid;
      write_at <= (m_awaddr - MEM_BASE) & ~(WORD_BYTES - 1);
    end else if (writing && m_wvalid) begin
      for (lane = 0; lane < WORD_BYTES; lane = lane + 1)
        if (m_wstrb[lane]) memory[write_at + lane] <= m_wdata[8*lane +: 8];
      write_at <= write_at + WORD_BYTES;
      if (m_wlast) begin
        writing <= 0;
        m_bvalid <= 1;
        m_bid <= write_id;
      end
    end
  end

  // The host.
  reg [31:0] value;
  reg [1:0] taken;
  task write_register(input [11:0] offset, input [31:0] data);
    begin
      @(negedge clk);
      awaddr = offset; wdata = data; awvalid = 1; wvalid = 1;
      while (awvalid || wvalid) begin
        @(posedge clk);
        taken = {awready, wready};
        #1 if (taken[1]) awvalid = 0;
        if (taken[0]) wvalid = 0;
      end
      while (!bvalid) @(posedge clk);
    end
  endtask

  task read_register(input [11:0] offset);
    begin
      @(negedge clk);
      araddr = offset; arvalid = 1;
      while (!arready) @(posedge clk);
      @(posedge clk) #1 arvalid = 0;
      while (!rvalid) @(posedge clk);
      value = rdata;
    end
  endtask

  integer limit;
  reg checked = 0;
  initial begin
    if (!$value$plusargs("max_cycles=%d", limit)) limit = MAX_CYCLES;
    repeat (limit) @(posedge clk);
    $display("error: no end after %0d cycles", limit);
    if (checked) $display("FAIL");
    $fatal(1);
  end

  reg [8*1024-1:0] path;
  integer program_address, program_bytes, at, compared, wrong;
  reg failed = 0;
  initial begin
    if (!$value$plusargs("latency=%d", latency)) latency = 8;
    if (!$value$plusargs("program_address=%d", program_address)) program_address = PROGRAM_ADDRESS;
    if (!$value$plusargs("program_bytes=%d", program_bytes)) program_bytes = PROGRAM_BYTES;
    if ($value$plusargs("memory=%s", path)) $readmemh(path, memory);
    else if (MEMORY_FILE != "") $readmemh(MEMORY_FILE, memory);
    for (at = 0; at < MEMORY_BYTES; at = at + 1) expected[at] = 0;
    checked = 1;
    if ($value$plusargs("expected=%s", path)) $readmemh(path, expected);
    else if (EXPECTED_FILE != "") $readmemh(EXPECTED_FILE, expected);
    else checked = 0;
    repeat (4) @(posedge clk);
    #1 rst = 0;
    write_register(12'h048, MEM_BASE[31:0]);
    if (ADDRESS_BITS > 32) write_register(12'h058, MEM_BASE[63:32]);
    write_register(12'h04c, MEMORY_BYTES);
    write_register(12'h040, program_address);
    write_register(12'h044, program_bytes);
    write_register(12'h010, 32'd1);
    value = 0;
    while (value[3:2] == 0) read_register(12'h014);
    if (value[3]) begin
      read_register(12'h018);
      $display("error: code %0d of unit %0d", value[3:0], value[10:8]);
      read_register(12'h01c);
      $display("at program offset %0d", value);
      failed = 1;
      if (checked) $display("FAIL");
    end else begin
      read_register(12'h080);
      $display("cycles %0d", value);
      compared = 0;
      wrong = 0;
      for (at = 0; at < MEMORY_BYTES; at = at + 1)
        if (expected[at][8]) begin
          compared = compared + 1;
          if (memory[at] !== expected[at][7:0]) begin
            if (wrong == 0) $display("byte %0d is %h, not %h", at, memory[at], expected[at][7:0]);
            wrong = wrong + 1;
          end
        end
      failed = wrong != 0;
      if (checked && !failed) $display("PASS: %0d bytes", compared);
      if (checked && failed) $display("FAIL: %0d of %0d bytes", wrong, compared);
    end
    if ($value$plusargs("result=%s", path)) $writememh(path, memory);
    if (failed) $fatal(1);
    $finish;
  end
endmodule
