/* Firmware that runs digits twice and then a program with a fault. It shares `struct mailbox` with the test. */
#include "digits.h"
#include "far.h"
#include "tosaic_mapped.h"

__asm__(".section .text.start,\"ax\"\n.globl _start\n_start:\n    call main\n    ebreak\n.text\n");

#define RUNS 2

struct mailbox {
    int8_t images[RUNS][64];
    int8_t scores[RUNS][12];
    uint32_t cycles[RUNS];
    uint32_t results[RUNS];
    uint32_t last_result;
    uint32_t fault;
    uint32_t unit;
    uint32_t pc;
};

static struct mailbox *const mailbox = (struct mailbox *)MAILBOX;
static struct tosaic_mapped npu = {.registers = (uint32_t *)0x40000000, .memory = (uint8_t *)0x80000000};
static struct tosaic_port port;
static struct tosaic device;

static enum tosaic_result classify(int8_t *image, int8_t *scores)
{
    enum tosaic_result result = tosaic_write(&device, &digits_program.inputs[DIGITS_INPUT_IMAGE], image);
    if (result == TOSAIC_RESULT_OK)
        result = tosaic_run(&device, 0);
    if (result == TOSAIC_RESULT_OK)
        result = tosaic_read(&device, &digits_program.outputs[DIGITS_OUTPUT_SCORES], scores);
    return result;
}

int main(void)
{
    int index;

    tosaic_mapped_port(&port, &npu, MEMORY_BASE, MEMORY_BYTES);
    mailbox->last_result = tosaic_open(&device, &port);
    if (mailbox->last_result == TOSAIC_RESULT_OK)
        mailbox->last_result = tosaic_load(&device, &digits_program);
    if (mailbox->last_result != TOSAIC_RESULT_OK)
        return 1;
    for (index = 0; index < RUNS; index++) {
        mailbox->results[index] = classify(mailbox->images[index], mailbox->scores[index]);
        mailbox->cycles[index] = (uint32_t)tosaic_cycles(&device);
    }
    tosaic_load(&device, &far_program);
    mailbox->last_result = tosaic_run(&device, 0);
    mailbox->fault = device.fault.code;
    mailbox->unit = device.fault.unit;
    mailbox->pc = device.fault.pc;
    return 0;
}
