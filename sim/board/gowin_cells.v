// The cell of a Gowin that LiteDRAM's controller names: a register of its reset's synchronizer.
module DFFP (input CLK, input D, input PRESET, output reg Q);
    initial Q = 1'b1;
    always @(posedge CLK or posedge PRESET)
        if (PRESET) Q <= 1'b1;
        else Q <= D;
endmodule
