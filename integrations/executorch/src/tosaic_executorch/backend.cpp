// The delegate "TosaicBackend" of ExecuTorch's runtime.
//
// A program (program_blob.py) runs by way of Python's tosaic.Session where `tosaic_executorch_use` gave functions for
// that, else by the C kit on the machine whose address is in TOSAIC_ADDRESS. Nothing is computed here.

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/evalue.h>
#include <executorch/runtime/platform/log.h>

#include "tosaic_link.h"

namespace {

using executorch::runtime::ArrayRef;
using executorch::runtime::Backend;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::Result;
using executorch::runtime::Span;

constexpr char MAGIC[] = "TOSAICX2";
constexpr size_t MAGIC_BYTES = 8;
constexpr uint32_t UNREAD = 0xFFFFFFFFu;  // The address of an input that the program does not need.

// Python's functions. Each returns an error in words that lives until the next call, or NULL.
using Opens = const char* (*)(const void* program, uint64_t bytes, uint64_t* number);
using Runs = const char* (*)(uint64_t number, const void* const* inputs, void* const* outputs);
using Closes = void (*)(uint64_t number);

struct {
    Opens opens = nullptr;
    Runs runs = nullptr;
    Closes closes = nullptr;
    std::string address;
    std::string problem;
    std::mutex mutex;
} chosen;

Error fail(Error error, const char* format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    chosen.problem = text;
    ET_LOG(Error, "TosaicBackend: %s", text);
    return error;
}

struct Place {
    uint32_t address, bytes;
    uint32_t rank = 0;  // 0: row major
    uint32_t shape[TOSAIC_RANK_MAX], order[TOSAIC_RANK_MAX];

    // Whether each axis is there once, and the elements are of whole bytes.
    bool sound() const {
        uint32_t axes = 0, left = bytes;
        for (uint32_t axis = 0; axis < rank; ++axis) {
            if (order[axis] >= rank || shape[axis] == 0 || left % shape[axis] != 0) return false;
            axes |= 1u << order[axis];
            left /= shape[axis];
        }
        return axes == (1u << rank) - 1 && (rank == 0 || (left != 0 && left <= 8 && (left & (left - 1)) == 0));
    }
};

// A machine behind the C kit, which all methods of the process share.
struct Machine {
    tosaic_link link;
    tosaic device;

    ~Machine() { tosaic_link_close(&link); }
};

std::map<std::string, std::weak_ptr<Machine>>& machines() {
    static std::map<std::string, std::weak_ptr<Machine>> all;
    return all;
}

std::string problem_of(const Machine& machine, tosaic_result result) {
    std::string text = tosaic_result_text(result);
    if (result == TOSAIC_RESULT_MACHINE_FAULT)
        text += std::string(": ") + tosaic_fault_name(machine.device.fault.code) + " in "
            + tosaic_unit_name(machine.device.fault.unit);
    return machine.link.problem[0] ? text + ": " + machine.link.problem : text;
}

// One delegated part of a method. The blob stays ExecuTorch's.
class Part {
  public:
    std::vector<Place> inputs, outputs;
    uint64_t number = 0;  // Python's; 0: the C kit's
    std::shared_ptr<Machine> machine;
    tosaic_program program = {};

    // Whether the blob is one of ours and whole.
    bool read(const uint8_t* blob, size_t bytes) {
        Reader reader{blob, bytes};
        if (bytes < MAGIC_BYTES || std::memcmp(blob, MAGIC, MAGIC_BYTES) != 0) return false;
        reader.at = MAGIC_BYTES;
        uint32_t counts[3], image_at = 0;
        for (uint32_t* field : {&program.isa_hash, &program.config_hash, &program.memory_bytes,
                                &program.program_address, &program.program_bytes, &program.boot_address,
                                &program.boot_bytes, &counts[0], &counts[1], &counts[2], &image_at,
                                &program.image_bytes})
            if (!reader.word(field)) return false;
        blocks_.resize(counts[0] <= bytes / 16 ? counts[0] : 0);
        inputs.resize(counts[1] <= bytes / 12 ? counts[1] : 0);
        outputs.resize(counts[2] <= bytes / 12 ? counts[2] : 0);
        if (blocks_.size() != counts[0] || inputs.size() != counts[1] || outputs.size() != counts[2]) return false;
        for (auto& each : blocks_)
            for (uint32_t* field : {&each.tensor, &each.address, &each.bytes, &each.crc32})
                if (!reader.word(field)) return false;
        for (auto* side : {&inputs, &outputs})
            for (Place& place : *side) {
                if (!reader.word(&place.address) || !reader.word(&place.bytes) || !reader.word(&place.rank))
                    return false;
                if (place.rank > TOSAIC_RANK_MAX) return false;
                for (auto* axes : {place.shape, place.order})
                    for (uint32_t axis = 0; axis < place.rank; ++axis)
                        if (!reader.word(&axes[axis])) return false;
                if (!place.sound()) return false;
            }
        source = blob + reader.at;
        source_bytes = bytes - reader.at;
        if (image_at > source_bytes || program.image_bytes > source_bytes - image_at) return false;
        if (program.image_bytes > program.memory_bytes) return false;
        for (auto* side : {&inputs, &outputs})
            for (const Place& place : *side)
                if (!(side == &inputs && place.address == UNREAD)
                    && (place.address > program.memory_bytes || place.bytes > program.memory_bytes - place.address))
                    return false;
        program.name = "part";
        program.configuration = "";
        program.image = source + image_at;
        program.blocks = blocks_.data();
        program.block_count = counts[0];
        return true;
    }

    const uint8_t* source = nullptr;  // the .tsc file
    size_t source_bytes = 0;

  private:
    struct Reader {
        const uint8_t* data;
        size_t bytes;
        size_t at = 0;

        bool word(uint32_t* to) {
            if (bytes - at < 4) return false;
            const uint8_t* from = data + at;
            *to = from[0] | uint32_t(from[1]) << 8 | uint32_t(from[2]) << 16 | uint32_t(from[3]) << 24;
            at += 4;
            return true;
        }
    };
    std::vector<tosaic_block> blocks_;
};

class TosaicBackend final : public executorch::runtime::BackendInterface {
  public:
    bool is_available() const override { return true; }

    Result<DelegateHandle*> init(
        BackendInitContext&, FreeableBuffer* processed, ArrayRef<CompileSpec>) const override {
        std::lock_guard<std::mutex> lock(chosen.mutex);
        auto part = std::make_unique<Part>();
        if (!part->read(static_cast<const uint8_t*>(processed->data()), processed->size()))
            return fail(Error::DelegateInvalidCompatibility,
                        "the part is damaged or of another version: lower the program again");
        const Error error = chosen.opens ? open_in_python(*part) : open_machine(*part);
        if (error != Error::Ok) return error;
        return static_cast<DelegateHandle*>(part.release());
    }

    Error execute(BackendExecutionContext&, DelegateHandle* handle, Span<EValue*> arguments) const override {
        std::lock_guard<std::mutex> lock(chosen.mutex);
        Part& part = *static_cast<Part*>(handle);
        std::vector<const void*> inputs;
        std::vector<void*> outputs;
        if (arguments.size() != part.inputs.size() + part.outputs.size())
            return fail(Error::InvalidArgument, "the part has %zu inputs and outputs, not %zu",
                        part.inputs.size() + part.outputs.size(), arguments.size());
        for (size_t index = 0; index < arguments.size(); ++index) {
            const bool is_input = index < part.inputs.size();
            const Place& place = is_input ? part.inputs[index] : part.outputs[index - part.inputs.size()];
            if (!arguments[index]->isTensor())
                return fail(Error::InvalidArgument, "argument %zu is no tensor", index);
            auto tensor = arguments[index]->toTensor();
            if (tensor.nbytes() != place.bytes)
                return fail(Error::InvalidArgument, "argument %zu has %zu bytes, not %u", index, tensor.nbytes(),
                            unsigned(place.bytes));
            if (is_input)
                inputs.push_back(tensor.const_data_ptr());
            else
                outputs.push_back(tensor.mutable_data_ptr());
        }
        if (part.number == 0) return run_on_machine(part, inputs, outputs);
        // Python knows the inputs that the program reads.
        for (size_t index = part.inputs.size(); index-- > 0;)
            if (part.inputs[index].address == UNREAD) inputs.erase(inputs.begin() + long(index));
        const char* problem = chosen.runs(part.number, inputs.data(), outputs.data());
        return problem ? fail(Error::Internal, "%s", problem) : Error::Ok;
    }

    void destroy(DelegateHandle* handle) const override {
        std::lock_guard<std::mutex> lock(chosen.mutex);
        std::unique_ptr<Part> part(static_cast<Part*>(handle));
        if (part->number != 0 && chosen.closes) chosen.closes(part->number);
        if (part->machine && part->machine->device.program == &part->program) part->machine->device.program = nullptr;
    }

  private:
    static Error open_in_python(Part& part) {
        const char* problem = chosen.opens(part.source, part.source_bytes, &part.number);
        return problem ? fail(Error::DelegateInvalidCompatibility, "%s", problem) : Error::Ok;
    }

    static Error open_machine(Part& part) {
        const char* told = std::getenv("TOSAIC_ADDRESS");
        const std::string address = !chosen.address.empty() ? chosen.address : told ? told : "";
        if (address.empty())
            return fail(Error::NotFound,
                        "no machine is named: set TOSAIC_ADDRESS to tcp://HOST:PORT, udp://HOST or sim://CONFIG");
        part.machine = machines()[address].lock();
        if (part.machine) return Error::Ok;
        auto machine = std::make_shared<Machine>();
        if (tosaic_link_open(&machine->link, address.c_str()) != 0)
            return fail(Error::NotFound, "%s: %s", address.c_str(), machine->link.problem);
        const tosaic_result result = tosaic_open(&machine->device, &machine->link.port);
        if (result != TOSAIC_RESULT_OK)
            return fail(Error::NotFound, "%s: %s", address.c_str(), problem_of(*machine, result).c_str());
        machines()[address] = part.machine = machine;
        return Error::Ok;
    }

    static Error run_on_machine(
        Part& part, const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
        tosaic& device = part.machine->device;
        tosaic_result result = TOSAIC_RESULT_OK;
        if (device.program != &part.program) result = tosaic_load(&device, &part.program);
        for (size_t index = 0; index < inputs.size() && result == TOSAIC_RESULT_OK; ++index)
            if (part.inputs[index].address != UNREAD) {
                const tosaic_tensor tensor = tensor_at(part.inputs[index]);
                result = tosaic_write(&device, &tensor, inputs[index]);
            }
        if (result == TOSAIC_RESULT_OK) result = tosaic_run(&device, 0);
        for (size_t index = 0; index < outputs.size() && result == TOSAIC_RESULT_OK; ++index) {
            const tosaic_tensor tensor = tensor_at(part.outputs[index]);
            result = tosaic_read(&device, &tensor, outputs[index]);
        }
        if (result == TOSAIC_RESULT_OK) return Error::Ok;
        return fail(Error::Internal, "%s", problem_of(*part.machine, result).c_str());
    }

    static tosaic_tensor tensor_at(const Place& place) {
        tosaic_tensor tensor = {};
        tensor.address = place.address;
        tensor.bytes = place.bytes;
        tensor.rank = place.rank;
        tensor.shape = place.shape;
        tensor.order = place.rank == 0 ? nullptr : place.order;
        return tensor;
    }
};

TosaicBackend backend;
const Error registered = executorch::runtime::register_backend({"TosaicBackend", &backend});

}  // namespace

extern "C" {

// Methods that are loaded from now on run by these functions; where they are NULL, on the machine at `address`.
__attribute__((visibility("default"))) void tosaic_executorch_use(
    Opens opens, Runs runs, Closes closes, const char* address) {
    std::lock_guard<std::mutex> lock(chosen.mutex);
    chosen.opens = opens;
    if (runs) chosen.runs = runs;  // methods of before go on
    if (closes) chosen.closes = closes;
    chosen.address = address ? address : "";
}

// What failed last, in words; it lives until the next failure.
__attribute__((visibility("default"))) const char* tosaic_executorch_problem() { return chosen.problem.c_str(); }

// Whether the runtime knows the back end.
__attribute__((visibility("default"))) int tosaic_executorch_registered() { return registered == Error::Ok; }
}
