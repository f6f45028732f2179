//! `weft ceiling`: the server half of the bare TCP ceiling. The study starts it; it ends when its standard input closes.

use super::child::wait_for_end_of_input;
use crate::exit::Failure;
use clap::Args;
use std::io::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_bench::ceiling::{Memory, serve};
use weft_block::units;

/// Options of `weft ceiling`.
#[derive(Args, Debug)]
pub struct CeilingArgs {
    /// Bytes of the region that reads are served from
    #[arg(long, default_value = "1GiB", value_parser = units::parse_size)]
    memory: u64,
    /// Core to run on
    #[arg(long)]
    cpu: Option<usize>,
}

/// Serves until standard input closes.
pub fn run(args: &CeilingArgs) -> Result<(), Failure> {
    if let Some(cpu) = args.cpu {
        weft_io::cpu::pin_thread(cpu)?;
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let memory = Memory::new(args.memory as usize);
    writeln!(std::io::stdout(), "listening on {}", listener.local_addr()?)?;
    let stop = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&stop);
    std::thread::spawn(move || {
        wait_for_end_of_input();
        ended.store(true, Ordering::Relaxed);
    });
    Ok(serve(listener, &memory, &stop)?)
}
