//! The integration tests of this crate, in one program, since each program links all of weft.
//! Those that need a process of their own stand in `Cargo.toml`.

mod closing;
mod conformance;
mod disk;
mod durability;
mod file;
mod file_memory;
mod file_size;
mod full_disk;
mod mirror_bound;
mod mirror_by_loops;
mod mirror_of_ram;
mod mirror_reserved;
mod scratch;
mod wrappers;
