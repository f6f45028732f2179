//! The order of threads, for Valgrind's Helgrind. It knows the locks of pthreads only, so without
//! this it would report each buffer of a program that an event loop has filled.
//!
//! A request to Valgrind is a sequence of instructions that has no effect elsewhere (Valgrind's
//! manual, "The Client Request mechanism"). It takes a few nanoseconds for a batch of operations.
#![allow(unsafe_code, reason = "a request to Valgrind is a sequence of instructions")]

/// Orders everything that this thread has done before everything that another one does after its
/// [`follows`] with this object.
pub fn precedes<T>(object: &T) {
    request(0x4847_0121, (&raw const *object).addr());
}

/// Orders everything that this thread does from now on behind what others did before [`precedes`].
pub fn follows<T>(object: &T) {
    request(0x4847_0122, (&raw const *object).addr());
}

#[cfg(target_arch = "x86_64")]
fn request(code: usize, object: usize) {
    let arguments: [usize; 6] = [code, object, 0, 0, 0, 0];
    // SAFETY: `rdi` is rotated by 128 bits altogether and `rbx` is exchanged with itself, so both
    // stay as they are. Valgrind reads the arguments, and writes its answer to `rdx`.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0_usize => _,
            options(nostack),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_code: usize, _object: usize) {}
