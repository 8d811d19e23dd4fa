// A board with a register at every input, as in ../rtl/bench.v: logic behind inputs is evaluated twice per cycle. With
// SDRAM defined it has the pins of a chip of SDRAM_BITS, whose data come through no register: they are the chip's in this cycle. With
// MII or RGMII it has those of a PHY, with the PHY's own clocks.
module board_bench (
    input clk,
    input rst,
    input uart_rx,
`ifdef SDRAM
    output cke, cs_n, ras_n, cas_n, we_n,
    output [1:0] ba,
    output [12:0] a,  // A chip of fewer rows has the lower ones.
    output [`SDRAM_BITS/8-1:0] dm,
    output [`SDRAM_BITS-1:0] dq,
    input chip_drives,
    input [`SDRAM_BITS-1:0] chip_dq,
`endif
`ifdef MII
    input phy_clock,
    input phy_rx_valid,
    input [3:0] phy_rx_data,
    output phy_tx_valid,
    output [3:0] phy_tx_data,
`elsif RGMII
    input phy_clock,
    input phy_rx_valid,
    input [3:0] phy_rx_data,
    output phy_tx_valid,
    output [3:0] phy_tx_data,
`endif
`ifdef FLASH
    output flash_cs_n, flash_clk, flash_copi,
    input flash_cipo,
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
    wire [`SDRAM_BITS-1:0] dq_pins;
    assign dq_pins = chip_drives ? chip_dq : {`SDRAM_BITS{1'bz}};
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
`ifdef MII
        .phy__clocks_rx(phy_clock),
        .phy__clocks_tx(phy_clock),
        .phy__rx_dv(phy_rx_valid),
        .phy__rx_er(1'b0),
        .phy__rx_data(phy_rx_data),
        .phy__tx_en(phy_tx_valid),
        .phy__tx_data(phy_tx_data),
        .phy__rst_n(),
`elsif RGMII
        .phy__clocks_rx(phy_clock),
        .phy__clocks_tx(),
        .phy__rx_ctl(phy_rx_valid),
        .phy__rx_data(phy_rx_data),
        .phy__tx_ctl(phy_tx_valid),
        .phy__tx_data(phy_tx_data),
        .phy__rst_n(),
`endif
`ifdef FLASH
        .spi__cs_n(flash_cs_n),
        .spi__clk(flash_clk),
        .spi__copi(flash_copi),
        .spi__cipo(flash_cipo),
`endif
        .uart_tx(uart_tx),
        .led_busy(leds[0]),
        .led_link(leds[1]),
        .led_irq(leds[2])
    );
endmodule
