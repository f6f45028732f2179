//! The integration tests of this crate, in one program, since each program links all of weft.
//! Those that need a process of their own stand in `Cargo.toml`.

mod browser;
mod first_screen;
mod kept_versions;
mod pictures;
mod report;
mod sample;
mod table;
