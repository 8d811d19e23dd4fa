// What a destructor of a thread's own variable asks for; the only thread never ends.

extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }
