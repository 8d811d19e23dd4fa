// A board with a register at every input, as in ../rtl/bench.v: logic behind inputs is evaluated twice per cycle. With
// SDRAM defined it has the pins of a chip, whose data come through no register: they are the chip's in this cycle.
module board_bench (
    input clk,
    input rst,
    input uart_rx,
`ifdef SDRAM
    output cke, cs_n, ras_n, cas_n, we_n,
    output [1:0] ba,
    output [12:0] a,
    output [1:0] dm,
    output [15:0] dq,
    input chip_drives,
    input [15:0] chip_dq,
`endif
    output uart_tx,
    output [2:0] leds
);
    reg r_rst = 1;
    reg r_rx = 1;

    always @(posedge clk) begin
        r_rst <= rst;
        r_rx <= uart_rx;
    end

`ifdef SDRAM
    wire [15:0] dq_pins;
    assign dq_pins = chip_drives ? chip_dq : 16'hzzzz;
    assign dq = dq_pins;
`endif

    board board (
        .clk(clk),
        .rst(r_rst),
        .uart_rx(r_rx),
`ifdef SDRAM
        .sdram__cke(cke),
        .sdram__cs_n(cs_n),
        .sdram__ras_n(ras_n),
        .sdram__cas_n(cas_n),
        .sdram__we_n(we_n),
        .sdram__ba(ba),
        .sdram__a(a),
        .sdram__dm(dm),
        .sdram_dq(dq_pins),
`endif
        .uart_tx(uart_tx),
        .led_busy(leds[0]),
        .led_link(leds[1]),
        .led_irq(leds[2])
    );
endmodule
