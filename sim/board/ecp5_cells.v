// The I/O cells of an ECP5 that LiteDRAM's controller names, as far as it uses them: registers in the pads, and pads.
module OFS1P3BX (input D, input PD, input SCLK, input SP, output reg Q);
    always @(posedge SCLK)
        if (PD) Q <= 1'b1;
        else if (SP) Q <= D;
endmodule

module IFS1P3BX (input D, input PD, input SCLK, input SP, output reg Q);
    always @(posedge SCLK)
        if (PD) Q <= 1'b1;
        else if (SP) Q <= D;
endmodule

module FD1S3BX (input CK, input D, input PD, output reg Q);
    initial Q = 1'b1;
    always @(posedge CK or posedge PD)
        if (PD) Q <= 1'b1;
        else Q <= D;
endmodule

module TRELLIS_IO #(parameter DIR = "BIDIR") (inout B, input I, input T, output O);
    assign B = T ? 1'bz : I;
    assign O = B;
endmodule

// What LiteEth's RGMII names: registers of both edges, and delays, which are shorter than a simulated step.
module IDDRX1F (input D, input RST, input SCLK, output reg Q0, output reg Q1);
    reg rise, fall;
    always @(negedge SCLK) fall <= D;
    always @(posedge SCLK) begin
        rise <= D;
        Q0 <= rise;
        Q1 <= fall;
    end
endmodule

module ODDRX1F (input D0, input D1, input RST, input SCLK, output Q);
    reg rise, fall;
    always @(posedge SCLK) begin
        rise <= D0;
        fall <= D1;
    end
    assign Q = SCLK ? rise : fall;
endmodule

module DELAYG #(parameter DEL_MODE = "", parameter DEL_VALUE = 0) (input A, output Z);
    assign Z = A;
endmodule
