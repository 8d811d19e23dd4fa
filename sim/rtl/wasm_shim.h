// What Verilator's sources ask of a system and WASI has not: threads, locks, files and the clock of a process. Included
// first.
// There is one thread, so a lock is always free.

#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <time.h>

#ifndef CLOCK_PROCESS_CPUTIME_ID
#define CLOCK_PROCESS_CPUTIME_ID CLOCK_MONOTONIC
#endif

namespace std {
// There is no file to read.
template <>
class basic_ifstream<char> : public istringstream {
  public:
    explicit basic_ifstream(const char*) {}
};
struct mutex {
    void lock() {}
    void unlock() {}
    bool try_lock() { return true; }
};
struct recursive_mutex : mutex {};
struct condition_variable {
    void notify_one() {}
    void notify_all() {}
    template <class Lock>
    void wait(Lock&) {}
    template <class Lock, class Condition>
    void wait(Lock&, Condition) {}
};
struct condition_variable_any : condition_variable {};
struct thread {
    struct id {
        bool operator==(const id&) const { return true; }
        bool operator!=(const id&) const { return false; }
    };
    template <class... Arguments>
    thread(Arguments&&...) {}
    void join() {}
    static unsigned hardware_concurrency() { return 1; }
};
namespace this_thread {
inline thread::id get_id() { return {}; }
inline void yield() {}
}  // namespace this_thread
template <class Mutex>
struct lock_guard {
    explicit lock_guard(Mutex&) {}
};
template <class Mutex>
struct unique_lock {
    explicit unique_lock(Mutex&) {}
    void lock() {}
    void unlock() {}
};
}  // namespace std
