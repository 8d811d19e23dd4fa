/* Runs a compiled model on Linux: raw inputs from standard input, one after the other, raw outputs to standard output.
 *
 * cc -std=c99 -DMODEL='"digits.h"' -DPROGRAM=digits_program example_uio.c tosaic_uio.c tosaic_mapped.c tosaic.c digits.c
 * ./a.out [/dev/uio0 [/dev/udmabuf0 [/sys/class/u-dma-buf]]] < image.raw > scores.raw
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include MODEL
#include "tosaic_uio.h"

static int failed(const struct tosaic *device, enum tosaic_result result)
{
    fprintf(stderr, "%s: %s", tosaic_result_name(result), tosaic_result_text(result));
    if (result == TOSAIC_RESULT_MACHINE_FAULT)
        fprintf(stderr, ": %s in %s at program counter %" PRIu32, tosaic_fault_name(device->fault.code),
            tosaic_unit_name(device->fault.unit), device->fault.pc);
    fputc('\n', stderr);
    return EXIT_FAILURE;
}

/* The tensor from or to a file, over `data`, which has room for it. */
static int moved(struct tosaic *device, const struct tosaic_tensor *tensor, void *data, int is_input)
{
    if (is_input)
        return fread(data, 1, tensor->bytes, stdin) == tensor->bytes
            && tosaic_write(device, tensor, data) == TOSAIC_RESULT_OK;
    return tosaic_read(device, tensor, data) == TOSAIC_RESULT_OK
        && fwrite(data, 1, tensor->bytes, stdout) == tensor->bytes;
}

static int all_moved(struct tosaic *device, const struct tosaic_tensor *tensors, uint32_t count, int is_input)
{
    uint32_t index;

    for (index = 0; index < count; index++) {
        void *data = malloc(tensors[index].bytes);
        int done = data != NULL && moved(device, &tensors[index], data, is_input);
        free(data);
        if (!done) {
            fprintf(stderr, "%s: %" PRIu32 " bytes cannot be moved\n", tensors[index].name, tensors[index].bytes);
            return 0;
        }
    }
    return 1;
}

int main(int count, char **arguments)
{
    const char *registers = count > 1 ? arguments[1] : "/dev/uio0";
    const char *buffer = count > 2 ? arguments[2] : "/dev/udmabuf0";
    const char *class_folder = count > 3 ? arguments[3] : "/sys/class/u-dma-buf";
    const struct tosaic_program *program = &PROGRAM;
    struct tosaic_uio uio;
    struct tosaic device;
    enum tosaic_result result;
    const char *wrong = tosaic_uio_open(&uio, registers, buffer, class_folder);

    if (wrong != NULL) {
        perror(wrong);
        return EXIT_FAILURE;
    }
    result = tosaic_open(&device, &uio.port);
    if (result == TOSAIC_RESULT_OK)
        result = tosaic_load(&device, program);
    if (result != TOSAIC_RESULT_OK)
        return failed(&device, result);
    if (!all_moved(&device, program->inputs, program->input_count, 1))
        return EXIT_FAILURE;
    result = tosaic_run(&device, 0);
    if (result != TOSAIC_RESULT_OK)
        return failed(&device, result);
    fprintf(stderr, "%" PRIu64 " cycles\n", tosaic_cycles(&device));
    if (!all_moved(&device, program->outputs, program->output_count, 0))
        return EXIT_FAILURE;
    tosaic_uio_close(&uio);
    return EXIT_SUCCESS;
}
