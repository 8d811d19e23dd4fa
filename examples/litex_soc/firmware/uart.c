/* Text for people. */
#include "board.h"

static void put(char character)
{
    while (CSR(CSR_UART_TXFULL_ADDR))
        ;
    CSR(CSR_UART_RXTX_ADDR) = (uint8_t)character;
}

void print(const char *text)
{
    while (*text)
        put(*text++);
}

void print_number(uint32_t number)
{
    uint32_t power = 1000000000;

    while (power > 1 && number / power == 0)
        power /= 10;
    for (; power; power /= 10) {
        put((char)('0' + number / power));
        number %= power;
    }
}
