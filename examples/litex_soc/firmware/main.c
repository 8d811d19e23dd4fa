/* Runs every model on its input and prints the class: the place of the largest output. */
#include <stddef.h>

#include "board.h"
#include "models.h"
#include "tosaic_mapped.h"

static struct tosaic_mapped npu = {
    .registers = (uint32_t *)NPU_BASE,
    .memory = (uint8_t *)NPU_MEMORY_BASE,
};
static struct tosaic_port port;
static struct tosaic device;
static volatile int raised;
static uint32_t interrupts;

void npu_interrupt(void)
{
    tosaic_acknowledge(&device);
    raised = 1;
    interrupts++;
}

static int wait_for_npu(void *context)
{
    (void)context;
    /* A processor that can sleep until the interrupt does so here: docs/c_kit.md. */
    while (!raised)
        ;
    raised = 0;
    return 0;
}

static int32_t element(const struct tosaic_tensor *tensor, const uint8_t *bytes, uint32_t index)
{
    /* int8_t, or int16_t and int32_t, low byte first. */
    if (tensor->type[3] == '8')
        return (int8_t)bytes[index];
    if (tensor->type[3] == '1')
        return (int16_t)(bytes[2 * index] | bytes[2 * index + 1] << 8);
    return (int32_t)(bytes[4 * index] | bytes[4 * index + 1] << 8 | bytes[4 * index + 2] << 16
                     | (uint32_t)bytes[4 * index + 3] << 24);
}

static uint32_t largest(const struct tosaic_tensor *tensor, const uint8_t *bytes)
{
    uint32_t count = 1, best = 0, index;

    for (index = 0; index < tensor->rank; index++)
        count *= tensor->shape[index];
    for (index = 1; index < count; index++)
        if (element(tensor, bytes, index) > element(tensor, bytes, best))
            best = index;
    return best;
}

static enum tosaic_result classify(const struct model *model, uint32_t *class)
{
    static uint8_t output[OUTPUT_BYTES] __attribute__((aligned(4)));
    const struct tosaic_program *program = model->program;
    enum tosaic_result result = tosaic_load(&device, program);

    if (result == TOSAIC_RESULT_OK)
        result = tosaic_write(&device, &program->inputs[0], model->input);
    if (result == TOSAIC_RESULT_OK)
        result = tosaic_run(&device, 0);
    if (result == TOSAIC_RESULT_OK)
        result = tosaic_read(&device, &program->outputs[0], output);
    *class = largest(&program->outputs[0], output);
    return result;
}

int main(void)
{
    enum tosaic_result result;
    uint32_t index, class;

    sdram_start();
    npu.wait = wait_for_npu;
    tosaic_mapped_port(&port, &npu, NPU_MEMORY_BASE, NPU_MEMORY_SIZE);
    result = tosaic_open(&device, &port);
    enable_npu_interrupt();
    for (index = 0; index < MODEL_COUNT && result == TOSAIC_RESULT_OK; index++) {
        result = classify(&models[index], &class);
        if (result != TOSAIC_RESULT_OK)
            break;
        print(models[index].program->name);
        print(": class ");
        print_number(class);
        print(", ");
        print_number((uint32_t)tosaic_cycles(&device));
        print(" cycles, ");
        print_number(interrupts);
        print(" interrupts\n");
    }
    print(result == TOSAIC_RESULT_OK ? "done\n" : "stopped: ");
    if (result != TOSAIC_RESULT_OK) {
        print(tosaic_result_text(result));
        print("\n");
    }
    return 0;
}
