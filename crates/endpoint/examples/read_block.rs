//! Reads the first block of a device: `read_block nvme+tcp://HOST[:PORT]/NQN`.

use std::process::ExitCode;
use weft_block::Error;
use weft_endpoint::{ConnectOptions, Disk};

fn main() -> ExitCode {
    let url = std::env::args().nth(1).unwrap_or_else(|| "ram:1MiB".to_owned());
    match first_bytes(&url) {
        Ok(bytes) => println!("{bytes:02x?}"),
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The first 16 bytes of a device.
fn first_bytes(url: &str) -> Result<Vec<u8>, Error> {
    let disk = Disk::open(url, &ConnectOptions::default())?;
    let mut block = vec![0; disk.geometry().block_bytes as usize];
    disk.read(0, &mut block)?;
    block.truncate(16);
    Ok(block)
}
