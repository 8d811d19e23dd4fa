// What LiteEth's MII names of a Xilinx part: the registers of its resets.
module FDPE #(parameter INIT = 1'b1) (input C, input CE, input D, input PRE, output reg Q);
    initial Q = INIT;
    always @(posedge C or posedge PRE)
        if (PRE) Q <= 1'b1;
        else if (CE) Q <= D;
endmodule
