// A board with a register at every input, as in ../rtl/bench.v: logic behind inputs is evaluated twice per cycle.
module board_bench (
    input clk,
    input rst,
    input uart_rx,
    output uart_tx,
    output [2:0] leds
);
    reg r_rst = 1;
    reg r_rx = 1;

    always @(posedge clk) begin
        r_rst <= rst;
        r_rx <= uart_rx;
    end

    board board (
        .clk(clk),
        .rst(r_rst),
        .uart_rx(r_rx),
        .uart_tx(uart_tx),
        .led_busy(leds[0]),
        .led_link(leds[1]),
        .led_irq(leds[2])
    );
endmodule
