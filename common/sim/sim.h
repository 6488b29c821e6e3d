// The simulated device: runs CUDA kernels on the CPU, and tells what they do wrong.
//
// A kernel is compiled by g++ as C++. Each CUDA thread is a fiber; the threads of a block share one OS thread and switch
// only inside collectives (barriers, shuffles, votes, ldmatrix, mma, ...); blocks spread over OS threads. `threadIdx` and
// friends are plain thread_local structs that the scheduler rewrites at each switch.
//
// What is modelled
//   threads     five schedules decide who runs next (`Schedule`); a kernel must be right under each of them.
//   barriers    bar.sync / bar.arrive / bar.red 0..15 with counts; warps arrive whole (the instructions are .aligned).
//   warps       `_sync` collectives wait for the lanes of their mask that have not exited; .aligned instructions want all
//               32 lanes at one source line.
//   memory      global memory is host memory; cudaMalloc and dynamic shared memory start as 0xFF bytes (NaN in every
//               floating type). Shared memory is fresh in each block and lies between guard bands.
//   cp.async    late: the destination is poisoned at issue; source read and destination written at the wait that first
//               guarantees them (the latest legal moment). early: all of it at issue. A kernel must be right in both.
//   mbarriers   counted arrivals and bytes, phases told apart by parity. A thread's first try_wait for a phase that is not
//               complete gives false at once: callers must ask again. The next ones wait until it is complete, or give false
//               when no thread can run, a few times. The 8 bytes hold a pattern, which a stray store spoils.
//   TMA         bulk copies, and tensor copies of 1 to 3 dimensions with swizzles of 32, 64 and 128 bytes on the absolute
//               shared address, by a copy engine. late: it does something only when no thread can run, one step of one
//               copy, which one the schedule decides; until then the destination of a load is poison, and a store takes
//               two steps: it reads shared memory, it writes global memory. early: all of it at issue.
//   proxies     the engine sees shared memory as it was at the last fence.proxy.async of any thread (0xFF before the first
//               one), and what it wrote itself. A missing fence.proxy.async.global is a race for ThreadSanitizer. Not
//               modelled: the fence between ordinary accesses and a copy that overwrites what they accessed.
//   clusters    1 to 8 blocks along x, their threads interleaved. mapa gives addresses in each other's shared memory. The
//               barrier of the cluster counts the threads that have not exited. A block, and its shared memory, ends with
//               its last thread.
//   dependents  late: a programmatic launch does not see what the grid before it wrote (in cudaMalloc memory, up to 256
//               MiB) until one of its threads executes griddepcontrol.wait, whether that grid executed launch_dependents
//               or just ended, if nothing came between them but questions to the runtime. early: it sees all. On a device
//               of compute capability 9.0 and later that is all that it wrote, on earlier ones what it wrote behind
//               launch_dependents.
//
// What finds what
//   this library           deadlock, divergence, misuse and out-of-bounds operands of instructions: a `Report`. Also the
//                          use of shared memory of a block that has ended, a programmatic launch that writes what the grid
//                          before it writes, without waiting, copies that bring their bytes to a later phase than that of
//                          their issue, and copies and stores that a block or thread does not wait for before it ends.
//   schedules and poison   wrong output where a barrier, a wait or a commit is missing.
//   ThreadSanitizer        races, also those whose output happens to be right. Barriers and __syncwarp order memory,
//                          shuffles, votes, ldmatrix and mma do not; blocks of one launch are unordered but for the
//                          cluster barrier (not its relaxed arrival). The end of a block counts as a write of its shared
//                          memory. What the grid before a programmatic launch changed counts as written until a thread
//                          waits; that this one writes what that one only reads is not found. The copy engine is one
//                          thread more for each thread that issues: what it touches counts at issue and at delivery,
//                          behind what the issuer did before, and before what waits for the mbarrier or the group.
//                          Arrivals from other blocks order only .acquire.cluster waits.
//   AddressSanitizer       plain loads and stores outside cudaMalloc memory or the dynamic shared block; what instructions
//                          reach there is a `Report` in its builds.
// One build of this library serves all three: it is never compiled with a sanitizer and calls theirs through weak symbols.
//
// Files: language.h (keywords, intrinsics, atomics), runtime_api.h (cudaMalloc and so on), sim.h (this: options, launch,
// the instructions for common/ptx.cuh); inside: state.h, engine.h, schedule.h, fiber.h, sanitizers.h, scheduler.cpp (who
// runs), warp.cpp (collectives), barrier.cpp, cluster.cpp, async_copy.cpp (cp.async), instructions.cpp (ldmatrix, mma),
// mbarrier.cpp, engine.cpp (when copies are made), bulk_copy.cpp, tensor_copy.cpp, dependent_launch.cpp, report.cpp.
//
// Where the rest of the machine goes
//   wgmma, tcgen05       warpgroup collectives on top of warp.cpp; operands read and results written at their waits, as
//                        async_copy.cpp does for cp.async; shared memory through `async_image`. tcgen05 adds a tensor
//                        memory to `Block`.
//   spinning on memory   fibers do not preempt: a load that is spun on must yield (a ld_acquire of its own), and all its
//                        blocks must share a scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <source_location>
#include <stdexcept>
#include <string>

#include "common/sim/language.h"
#include "common/sim/runtime_api.h"

namespace grout::sim {

using Loc = std::source_location;

/// Which ready thread runs next.
enum class Schedule {
  ascending,    ///< the ready thread with the lowest number
  descending,   ///< the highest; blocks run last to first
  random,       ///< any, by the seed; blocks in a seeded order
  warp_greedy,  ///< one warp as far as it can go before any other, warps in a seeded order
  round_robin,  ///< each warp in turn, one thread of it at a time
};
inline constexpr Schedule kSchedules[] = {Schedule::ascending, Schedule::descending, Schedule::random,
                                          Schedule::warp_greedy, Schedule::round_robin};

/// When asynchronous operations take effect: at the latest or at the earliest legal moment.
enum class Asynchrony { late, early };
inline constexpr Asynchrony kAsynchronies[] = {Asynchrony::late, Asynchrony::early};

const char* name(Schedule schedule);
const char* name(Asynchrony asynchrony);

struct Options {
  Schedule schedule = Schedule::ascending;   ///< GROUT_SIM_SCHEDULE: a name of `Schedule`
  std::uint64_t seed = 1;                    ///< GROUT_SIM_SEED
  Asynchrony asynchrony = Asynchrony::late;  ///< GROUT_SIM_ASYNC: late or early
  int workers = 0;                           ///< GROUT_SIM_WORKERS: OS threads; 0 = one per core
  int sms = 4;                               ///< multiprocessors that the device reports
  int compute_capability = 80;               ///< 10 * major + minor that the device reports
  std::size_t stack_bytes = 256 << 10;       ///< of one simulated thread (touched pages only are used)
};

/// The options of every later launch, first read from the environment. Throws std::invalid_argument, with what would be
/// accepted, if a variable cannot be read. Not to be changed during a launch.
Options& options();

/// What a kernel did wrong, as one paragraph: what, which threads, where in the kernel, and the rule.
class Report : public std::runtime_error {
 public:
  enum class Kind { deadlock, divergence, out_of_bounds, misuse };
  Report(Kind kind, const std::string& paragraph) : std::runtime_error(paragraph), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// Counts of one launch.
struct Statistics {
  std::uint64_t blocks = 0, threads = 0, switches = 0;
  std::uint64_t collectives = 0;  ///< warp-wide operations completed
  std::uint64_t barriers = 0;     ///< completed phases of block barriers
  std::uint64_t cp_async_4 = 0, cp_async_8 = 0, cp_async_16 = 0;
  std::uint64_t cp_async_filled = 0;    ///< of those: fewer source bytes than destination bytes
  std::uint64_t vector_stores = 0;      ///< st.global, st.shared of 4 to 16 bytes (ptx::store_*), each thread's counted
  std::uint64_t ldmatrix = 0, mma = 0;  ///< warp-wide instructions
  std::uint64_t bulk_loads = 0, bulk_stores = 0;      ///< cp.async.bulk to shared memory (also of a neighbour); from it
  std::uint64_t tensor_loads = 0, tensor_stores = 0;  ///< cp.async.bulk.tensor
  std::uint64_t mbarrier_phases = 0;                  ///< completed
  std::uint64_t cluster_barriers = 0;   ///< completed phases of cluster barriers
  std::uint64_t cluster_loads = 0, cluster_stores = 0;  ///< ld, st of shared::cluster, each thread's counted
  std::uint64_t cluster_launches = 0, programmatic_launches = 0;  ///< 1 if the launch was one, else 0
  Statistics& operator+=(const Statistics& other);
};
/// Of this host thread's last launch that finished without a report.
const Statistics& statistics();

struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;       ///< blocks along x
  bool programmatic = false;  ///< may read what the launch before it wrote only after griddepcontrol_wait
};

/// Runs `body(context)` once in each thread of the grid and returns when all have ended. `kernel` identifies the kernel
/// in `launched_kernels()`, `name` in reports. Throws `Report`.
void launch(const Launch& launch, void (*body)(void*), void* context, const void* kernel, const char* name = nullptr);

/// Every kernel that was launched in this process. Not to be read during a launch.
const std::set<const void*>& launched_kernels();

enum class Sanitizer { none, address, thread };
/// The sanitizer that this program was built with.
Sanitizer sanitizer();

// ---- Instructions, for common/ptx.cuh and language.h. Outside a kernel each throws std::logic_error with its name. ----

/// bar.sync id, threads. The whole warp waits until `threads` threads (0: the whole block) have arrived.
void bar_sync(unsigned id, unsigned threads, Loc loc = Loc::current());
/// bar.arrive id, threads. The warp arrives and goes on.
void bar_arrive(unsigned id, unsigned threads, Loc loc = Loc::current());
/// bar.red.popc on barrier 0: waits as bar_sync(0, 0) and returns how many threads gave true.
unsigned bar_count(bool predicate, Loc loc = Loc::current());

/// This block's dynamic shared memory, aligned to 1024 bytes.
void* dynamic_shared();
/// The 32-bit shared-memory address of a pointer into this block's dynamic shared memory (its end included).
std::uint32_t shared_address(const void* pointer, Loc loc = Loc::current());

/// The memory behind a shared address: `bytes` (a power of two), aligned to that. `what` names the instruction.
void* shared_pointer(std::uint32_t address, unsigned bytes, const char* what, Loc loc = Loc::current());

/// ld and st of `bytes` (4, 8 or 16), aligned to that, between memory of any space and registers.
void load(void* registers, const void* memory, unsigned bytes, Loc loc = Loc::current());
void store(void* memory, const void* registers, unsigned bytes, Loc loc = Loc::current());

/// cp.async: `bytes` (4, 8 or 16) to shared memory, the first `src_bytes` from `src`, zeros behind.
void cp_async(std::uint32_t dst, const void* src, unsigned bytes, unsigned src_bytes, Loc loc = Loc::current());
void cp_async_commit(Loc loc = Loc::current());
/// Completes all of this thread's committed groups but the `n` most recent.
void cp_async_wait_group(int n, Loc loc = Loc::current());
/// Completes all of this thread's copies, committed or not.
void cp_async_wait_all(Loc loc = Loc::current());

/// ldmatrix.sync.aligned.m8n8.x`count`{.trans}.b16: register r[i] of each lane from 8x8 matrix i; lane 8 * i + j gives
/// the address of row j of matrix i, the addresses of other lanes are not used.
void ldmatrix(std::uint32_t* r, int count, bool trans, std::uint32_t row_address, Loc loc = Loc::current());

/// mma.sync.aligned.m16n8k16.row.col.f32.{bf16|f16}: d = a * b + c, d may be c. Products are exact; they are added in
/// fp32, k ascending, and c last.
void mma_m16n8k16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const float (&c)[4],
                  bool is_bf16, Loc loc = Loc::current());

// ---- Instructions of compute capability 9.0, for common/ptx_sm90.cuh, which says what each does ----

/// What cuTensorMapEncodeTiled makes of its arguments: a matrix in global memory, fastest dimension first.
struct alignas(64) TensorMap {
  enum class Swizzle : std::uint8_t { none, b32, b64, b128 };
  std::uint8_t rank = 0;  // 1 to 3; 0: never encoded
  std::uint8_t element_bytes = 0;
  Swizzle swizzle = Swizzle::none;
  unsigned char* base = nullptr;
  std::uint64_t extent[3] = {};       // elements
  std::uint64_t pitch_bytes[3] = {};  // between neighbours in that dimension; [0] is element_bytes
  std::uint32_t box[3] = {};          // elements
};

void mbarrier_init(std::uint32_t shared, std::uint32_t count, Loc loc = Loc::current());
void mbarrier_inval(std::uint32_t shared, Loc loc = Loc::current());
void fence_mbarrier_init(Loc loc = Loc::current());
void mbarrier_arrive(std::uint32_t shared, Loc loc = Loc::current());
void mbarrier_arrive_cluster(std::uint32_t cluster_shared, Loc loc = Loc::current());
void mbarrier_expect_tx(std::uint32_t shared, std::uint32_t bytes, Loc loc = Loc::current());
void mbarrier_arrive_expect_tx(std::uint32_t shared, std::uint32_t bytes, Loc loc = Loc::current());
bool mbarrier_try_wait_parity(std::uint32_t shared, std::uint32_t parity, bool cluster, Loc loc = Loc::current());

void fence_proxy_async(Loc loc = Loc::current());
void fence_proxy_async_global(Loc loc = Loc::current());

/// `blocks`: multicast mask; 0: the own block only.
void bulk_load(std::uint32_t shared, const void* global, std::uint32_t bytes, std::uint32_t barrier, std::uint16_t blocks,
               Loc loc = Loc::current());
void bulk_to_cluster(std::uint32_t cluster_shared, std::uint32_t shared, std::uint32_t bytes, std::uint32_t cluster_barrier,
                     Loc loc = Loc::current());
void bulk_store(void* global, std::uint32_t shared, std::uint32_t bytes, Loc loc = Loc::current());
void bulk_commit_group(Loc loc = Loc::current());
void bulk_wait_group(int n, bool read, Loc loc = Loc::current());
void tensor_load(std::uint32_t shared, const TensorMap& map, const std::int32_t* coordinates, int rank, std::uint32_t barrier,
                 std::uint16_t blocks, Loc loc = Loc::current());
void tensor_store(const TensorMap& map, const std::int32_t* coordinates, int rank, std::uint32_t shared,
                  Loc loc = Loc::current());
void prefetch_tensormap(const TensorMap& map, Loc loc = Loc::current());

std::uint32_t cluster_rank(Loc loc = Loc::current());
std::uint32_t cluster_size(Loc loc = Loc::current());
std::uint32_t mapa(std::uint32_t shared, std::uint32_t rank, Loc loc = Loc::current());
void cluster_arrive(bool relaxed, Loc loc = Loc::current());
void cluster_wait(Loc loc = Loc::current());
void load_cluster(void* registers, std::uint32_t cluster_shared, unsigned bytes, Loc loc = Loc::current());
void store_cluster(std::uint32_t cluster_shared, const void* registers, unsigned bytes, Loc loc = Loc::current());

void griddepcontrol_wait(Loc loc = Loc::current());
void griddepcontrol_launch_dependents(Loc loc = Loc::current());

}  // namespace grout::sim
