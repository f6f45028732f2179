//! A cluster of Ceph on this machine, for measurements and for trying things: prints where its
//! configuration is, and ends with its standard input.
//!
//! ```sh
//! TMPDIR=/dev/shm cargo run -p weft-testing --example ceph
//! ```

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let Some(cluster) = weft_testing::ceph::CephCluster::start(1) else {
        return ExitCode::from(77);
    };
    println!("cluster in {}", cluster.dir().display());
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    ExitCode::SUCCESS
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    println!("clusters of Ceph need Linux");
    ExitCode::from(77)
}
