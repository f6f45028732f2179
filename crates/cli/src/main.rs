//! The program `weft`. All of it is in the library, which compiles while others are optimized.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    weft::main()
}
