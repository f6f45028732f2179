//! Reads the first block of a device: `read_block nvme+tcp://HOST[:PORT]/NQN`.

use weft_endpoint::{ConnectOptions, Disk};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "ram:1MiB".to_owned());
    let disk = Disk::open(&url, &ConnectOptions::default())?;
    let mut block = vec![0; disk.geometry().block_bytes as usize];
    disk.read(0, &mut block)?;
    println!("{:02x?}", &block[..16]);
    Ok(())
}
